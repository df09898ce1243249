-- Looks through the jobs of one queue, the newest accepted first, for those that match. Changes nothing.
--
-- KEYS those of the queue
-- ARGV 1 clock, 2 seq to begin before, 3 state ('' any), 4 kind ('' any), 5 tag between commas ('' any), 6 most to answer,
--   7 most to look at
-- Answers the seq that the next look begins before (0: there are no more) and how many jobs were looked at, then for each
-- job that matches its seq, its id and the bytes that it takes to show it: 8, 16 and 4 bytes. What is strange does not say
-- its seq, and comes with that of its block, before the first job of that.

-- Blocks that one call reads; most jobs of old ones may be gone.
local BLOCKS_READ = 8

local before, most, looks = tonumber(ARGV[2]), tonumber(ARGV[6]), tonumber(ARGV[7])
local state, kind, tag = byte(ARGV[3]), ARGV[4], ARGV[5]
local looked, found = 0, {}

-- The tags of a job, each between commas; empty if it has none. See row/content.rs.
local function tags_of(record)
  local payload, last = read('>I4', record, RECORD.payload), records.content_end(record)
  local at = RECORD.block_end + CONTENT.kind + byte(record, RECORD.content) + (payload <= MAX.inline and payload or 0)
  if byte(record, RECORD.flags) >= FLAGS.keyed then last = last - records.keys_width(record) end
  if at > last or last > #record then return '' end
  local flags = byte(record, at)
  at = at + 1
  if flags % 2 >= 1 then at = at + 1 < last and at + 2 + read('>I2', record, at) or last + 1 end
  return flags % 4 >= 2 and sub(record, at, last) or ''
end

local function matches(record)
  if state and byte(record) ~= state then
    return false
  end
  if kind ~= '' and records.kind_of(record) ~= kind then
    return false
  end
  return tag == '' or string.find(tags_of(record), tag, 1, true) ~= nil
end

local function size(id, record)
  local bytes = (record and read('>I4', record, RECORD.payload) or 0) + redis.call('HSTRLEN', KEY.outputs, id)
  return pack('>I4', math.min(bytes + redis.call('HSTRLEN', KEY.progress, id), 4294967295))
end

local function answer(from)
  return { string.format('%.0f', from), looked, unpack(found) }
end

-- The ids of a block that may be jobs of it, the newest first: one that went and came again stands twice.
local function ids_of(number)
  local block, ids, seen = redis.call('GET', keys.block(number)) or '', {}, {}
  for before = #block - WIDTH.id, 0, -WIDTH.id do
    local id = sub(block, before + 1, before + WIDTH.id)
    if not seen[id] then
      seen[id] = true
      ids[#ids + 1] = id
    end
  end
  return ids
end

-- Answers with the strange ones of a block.
local function add_strange(seq, ids, strange)
  for i, stored in pairs(strange) do
    looked = looked + 1
    local is_of_state = not state or records.strange_state(stored) == ARGV[3]
    if seq < before and is_of_state and kind == '' and tag == '' then
      found[#found + 1] = pack('>I8', seq) .. ids[i] .. size(ids[i])
    end
  end
end

local blocks = redis.call('ZREVRANGEBYSCORE', KEY.blocks, '(' .. ARGV[2], '-inf', 'WITHSCORES', 'LIMIT', 0, BLOCKS_READ)
for b = 1, #blocks, 2 do
  local block4, block_seq, ids = pack('>I4', blocks[b]), tonumber(blocks[b + 1]), ids_of(blocks[b])
  local loaded, strange = {}, {}
  if #ids > 0 then loaded, strange = records.load(unpack(ids)) end
  for i, id in ipairs(ids) do
    local record = loaded[i]
    local seq = record and sub(record, RECORD.block, RECORD.block_end) == block4 and read('>I8', record, RECORD.seq)
    if seq and seq < before then
      if seq <= block_seq then
        add_strange(block_seq, ids, strange)
        strange = {}
      end
      looked = looked + 1
      if matches(record) then
        found[#found + 1] = sub(record, RECORD.seq, RECORD.seq_end) .. id .. size(id, record)
      end
      if #found >= most or looked >= looks then
        return answer(seq)
      end
    end
  end
  add_strange(block_seq, ids, strange)
end
return answer(#blocks == 2 * BLOCKS_READ and blocks[#blocks] or 0)
