-- free_parts.lua: are there parts of extractions that nobody works on? Changes nothing.
-- ARGV[1] extractions that are looked at
-- returns their number
local free = 0
for _, extraction in ipairs(redis.call('ZRANGE', EXTRACTIONS, 0, tonumber(ARGV[1]) - 1)) do
  free = free + redis.call('ZCOUNT', parts_key(extraction), '-inf', now)
end
return free
