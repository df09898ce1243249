-- The keys of one queue: every script about a queue gets all of them, in this order (keys.rs).
-- Keys of a kind, a lease or a block are made from PREFIX; they carry the same tag and so live in the same slot.
local META, JOBS, BODIES, OUTPUTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local PROGRESS, ATTEMPTS, BLOCKS, LIVE = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local SCHEDULED, EXPIRING = KEYS[9], KEYS[10]
local COMPLETED, DEAD, CANCELLED = KEYS[11], KEYS[12], KEYS[13]
local LEASES, TRANSFERS, RECEIVED = KEYS[14], KEYS[15], KEYS[16]
-- KEYS[17] is never there; see keys.rs.
local PREFIX = string.sub(META, 1, -5)
