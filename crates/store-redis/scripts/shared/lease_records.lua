-- Records of leases, which belong to no queue.
-- KEYS 1 leases, 2 lease-expiry, 3 lease-order. Needs: clock.
local lease_records = {
  -- Records a lease as the newest one.
  add = function(lease, rest)
    local newest = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2] or 0
    -- A removal first: a server whose memory is full takes what follows one, and a worker must be able to come back.
    redis.call('ZREM', KEYS[3], lease)
    redis.call('ZADD', KEYS[3], newest + 1, lease)
    redis.call('HSET', KEYS[1], lease, clock.now8 .. rest)
  end,

  forget = function(lease)
    redis.call('HDEL', KEYS[1], lease)
    redis.call('ZREM', KEYS[2], lease)
    redis.call('ZREM', KEYS[3], lease)
  end,

  -- Lets a lease run out at an instant. Removed first, for a full server as above.
  expire = function(lease, micros)
    redis.call('ZREM', KEYS[2], lease)
    redis.call('ZADD', KEYS[2], micros, lease)
  end,
}
