-- The turns of several sources in one order: by score, due and seq, which no two jobs share. Sources stand in a binary heap
-- by their next turn, so that a job costs the logarithm of their number. Made only where there are several: for a claim of
-- so many jobs. Answers a function that gives the next turns, at most so many, the number of the source of each, and whether
-- more follow.
-- Needs: keys, sources, aged.
local function merge(limit)
  local PIECE_MAX, ONE_BY_ONE = 512, 2
  -- What the next turn of each source is, by its number: lists of numbers are the fastest to compare.
  local turns, scores, dues, seqs = {}, {}, {}, {}
  -- The piece of each that is being read, the place in it, and how many turns it has at most.
  local pieces, at, sizes = {}, {}, {}
  local heap, size = {}, 0
  -- Where priority is aged the order is by rank, score and seq.
  local worth = aged_made and aged_made.worth
  local floor, is_line, is_end = math.floor, sources.is_line, sources.is_end

  -- A job that stands twice at one turn is met in its line first.
  local function is_before(a, b)
    local one, other = scores[a], scores[b]
    if one == other then
      one, other = dues[a], dues[b]
      if one == other then one, other = seqs[a], seqs[b] end
    end
    return one < other or one == other and a < b
  end

  -- With many sources few turns are read of each at first: as many as each has in the claim, and the next one. Where most have
  -- none in the claim, the first ones of a line are read one by one, which makes no list of them.
  local first = math.ceil(limit / sources.number) + 1
  local ones = first > ONE_BY_ONE and 0 or ONE_BY_ONE

  -- Goes to the next turn of a source; false if there is none. A source is read in pieces, as far as it is needed.
  local function advance(number)
    local piece, place, turn, score = pieces[number], at[number], nil, 0
    if is_line[number] then
      place = place + 1
      if piece then
        turn = piece[place]
      elseif sources.read[number] < ones then
        turn = sources.next_one(number)
      end
    elseif piece then
      place = place + 2
      turn = piece[place]
    end
    if not turn then
      piece, place = not is_end[number] and sources.next(number, sizes[number], true) or {}, 1
      pieces[number], sizes[number], turn = piece, math.min(2 * sizes[number], PIECE_MAX), piece[1]
      if not turn then return false end
    end
    if not is_line[number] then score = tonumber(piece[place + 1]) end
    at[number], turns[number], scores[number] = place, turn, score
    dues[number], seqs[number] = read('>I8I8', turn)
    if worth then scores[number], dues[number] = dues[number] + score * worth, score end
    return true
  end

  -- Puts a source where it belongs in the heap below a place that is free: down to the end along the sources that come first,
  -- and up from there. Most often it belongs near the end, since its next turn is a late one.
  local function put(top, number)
    local place, child = top, 2 * top
    while child < size do
      if is_before(heap[child + 1], heap[child]) then child = child + 1 end
      heap[place], place, child = heap[child], child, 2 * child
    end
    if child == size then
      heap[place], place = heap[child], child
    end
    while place > top do
      local parent = floor(place / 2)
      if not is_before(number, heap[parent]) then break end
      heap[place], place = heap[parent], parent
    end
    heap[place] = number
  end

  for number = 1, sources.number do
    pieces[number], at[number], sizes[number] = false, 0, first
    if advance(number) then
      size = size + 1
      heap[size] = number
    end
  end
  for place = floor(size / 2), 1, -1 do
    put(place, heap[place])
  end

  return function(most)
    local found, origins, n = {}, {}, 0
    while size > 0 and n < most do
      local number = heap[1]
      n = n + 1
      found[n], origins[n] = turns[number], number
      if not advance(number) then
        number, heap[size] = heap[size], nil
        size = size - 1
      end
      if size > 0 then put(1, number) end
    end
    return found, origins, size > 0
  end
end
