-- raise_fence.lua: a loss of some server was noticed; who sent links before sends them again.
-- ARGV[1] number of the loss
-- returns the highest that is known on this server
local fence = max(tonumber(redis.call('GET', FENCE)) or 0, tonumber(ARGV[1]))
redis.call('SET', FENCE, string.format('%d', fence))
return fence
