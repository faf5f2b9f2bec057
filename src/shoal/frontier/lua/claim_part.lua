-- claim_part.lua: give one worker a part that nobody works on, of the extraction that was served longest ago.
-- ARGV[1] ms that the claim lasts   ARGV[2] extractions that are looked at
-- returns {extraction, part, claims of it since it last moved, ms until when the caller has it}, or nothing
local lifetime = tonumber(ARGV[1])
for _, extraction in ipairs(redis.call('ZRANGE', EXTRACTIONS, 0, tonumber(ARGV[2]) - 1)) do
  local key, claims = parts_key(extraction), claims_key(extraction)
  local part = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, 1)[1]
  if part then
    redis.call('ZADD', key, now + lifetime, part)
    redis.call('ZADD', EXTRACTIONS, now, extraction)
    local times = redis.call('HINCRBY', claims, part, 1)
    redis.call('EXPIRE', claims, DAY_S)
    return { extraction, part, times, now + lifetime }
  end
end
return {}
