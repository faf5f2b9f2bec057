-- throttle.lua: one more request of an API key, unless it asks too often (a virtual-scheduling token bucket).
-- ARGV[1] key's prefix   ARGV[2] requests a second   ARGV[3] burst
-- returns 0, or the ms after which to ask again
local key = limit_key(ARGV[1])
local interval, burst = 1000 / tonumber(ARGV[2]), tonumber(ARGV[3])
local slot = math.max(tonumber(redis.call('GET', key)) or 0, now)
local wait = slot - (burst - 1) * interval - now
if wait > 0 then return math.ceil(wait) end
slot = slot + interval
redis.call('SET', key, string.format('%.3f', slot), 'PX', math.ceil(slot - now) + 1000)
return 0
