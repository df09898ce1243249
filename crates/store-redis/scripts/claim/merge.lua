-- The turns of several sources in one order: by score, due and seq, which no two jobs share. Sources stand in a binary heap
-- by their next turn, so that a job costs the logarithm of their number. Made only where there are several: for a claim of
-- so many jobs. Answers a function that gives the next turns, at most so many, the source of each, and whether more follow.
-- Needs: keys, sources.
local function merge(limit)
  local PIECE_MAX = 512
  local heap, size = {}, #sources

  local function is_before(a, b)
    if a.score ~= b.score then return a.score < b.score end
    if a.due ~= b.due then return a.due < b.due end
    return a.seq < b.seq
  end

  -- Goes to the next turn of a source; false if there is none. A source is read in pieces, as far as it is needed.
  local function advance(source)
    local at = source.at + (source.is_line and 1 or 2)
    local turn = source.piece and source.piece[at]
    if not turn then
      if source.left == 0 then return false end
      source.piece, at = sources.next(source, source.size, true), 1
      source.size = math.min(2 * source.size, PIECE_MAX)
      turn = source.piece[at]
    end
    source.at, source.turn = at, turn
    source.score = source.is_line and 0 or tonumber(source.piece[at + 1])
    source.due, source.seq = read('>I8', turn), read('>I8', turn, TURN.seq)
    return true
  end

  -- Puts a source where it belongs at or below a place.
  local function sift_down(place, source)
    while true do
      local child = 2 * place
      if child > size then break end
      if child < size and is_before(heap[child + 1], heap[child]) then child = child + 1 end
      if not is_before(heap[child], source) then break end
      heap[place], place = heap[child], child
    end
    heap[place] = source
  end

  -- With many sources few turns are read of each at first: as many as each has in the claim, and the next one.
  for i = 1, size do
    local source = sources[i]
    source.size = math.ceil(limit / size) + 1
    advance(source)
    heap[i] = source
  end
  for place = math.floor(size / 2), 1, -1 do
    sift_down(place, heap[place])
  end

  return function(most)
    local turns, origins, n = {}, {}, 0
    while size > 0 and n < most do
      local source = heap[1]
      n = n + 1
      turns[n], origins[n] = source.turn, source
      if not advance(source) then
        source, heap[size] = heap[size], nil
        size = size - 1
      end
      if size > 0 then sift_down(1, source) end
    end
    return turns, origins, size > 0
  end
end
