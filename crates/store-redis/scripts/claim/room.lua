-- What a claim has taken so far, wherever the jobs stood, and whether another one fits. Made only where there are any.
-- Needs: keys. ARGV: those of jobs/claim.
local room_made
local function room()
  if room_made then return room_made end
  -- How many bytes of payloads that stand apart one script hands out beside the first: they pass through Lua, at some
  -- milliseconds for each MiB.
  local APART_MAX = 1048576
  local bytes_max, is_untouched, apart_bytes = tonumber(ARGV[6]), ARGV[8] == '1', 0
  -- For each job its id and record, all ids, how many, and those whose payload stands apart; records that jobs with a unique
  -- key had, by id, and how many have which key that they take turns by; how many bytes are taken; whether one did not fit.
  local r = {
    jobs = {}, ids = {}, number = 0, apart = nil, keyed = nil, gated = nil, bytes = tonumber(ARGV[7]), bytes_max = bytes_max,
    is_over = false,
  }

  -- Whether a payload may be handed out, with so many bytes in all and after so many jobs; if not, why the claim ends.
  function r.refusal(payload, id, sum, taken)
    if sum > bytes_max and not (is_untouched and taken == 0) then
      r.is_over = true
      return 1
    end
    if payload > MAX.inline then
      apart_bytes = apart_bytes + payload
      if apart_bytes > APART_MAX and taken > 0 then return 3 end
      r.apart = r.apart or {}
      r.apart[#r.apart + 1] = id
    end
    return nil
  end

  room_made = r
  return r
end
