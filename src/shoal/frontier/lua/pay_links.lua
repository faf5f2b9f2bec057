-- pay_links.lua: links that were owed have been sent, or some of them.
-- ARGV[1] number of the last loss of a server that was known before they were sent
-- ARGV[2] the line that was owed   ARGV[3] what of it is owed still, ''   ARGV[4] what was sent, '' when it is nobody's
-- returns 1, or 0 when there was another loss: what was sent may be gone, and is owed still
if (tonumber(redis.call('GET', FENCE)) or 0) > tonumber(ARGV[1]) then return 0 end
local since = redis.call('ZSCORE', owed_key(), ARGV[2])
if since then
  redis.call('ZREM', owed_key(), ARGV[2])
  local job = string.match(ARGV[2], '^%S+')
  local left = ARGV[3] ~= '' and redis.call('ZADD', owed_key(), since, ARGV[3]) == 1 -- else it is owed already
  if not left and redis.call('EXISTS', job_key(job)) == 1 then redis.call('HINCRBY', job_key(job), 'owing', -1) end
end
if ARGV[4] ~= '' then redis.call('ZADD', sent_key(), now, ARGV[4]) end
return 1
