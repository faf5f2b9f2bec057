-- end_job.lua: all slots of a job are sealed, with nothing in them: it ends, and has the sums of all of them.
-- ARGV[1] job   ARGV[2] token of `begin_end`, unless something has come between, or a server has lost something   ARGV[3] number of pairs of sums
-- ARGV[4..] pairs: sum, n; then pairs: outcome:reason, n; then pairs: '@' .. slow host, ms
-- returns 1, or 0 when somebody has come between (then nothing changes)
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'ended', 'open', 'rebuild', 'ending', 'ends')
if j[5] ~= ARGV[2] or j[5] ~= end_token(j[6]) then return 0 end
if not j[1] or j[2] or (j[1] ~= 'cancelled' and (j[3] == '1' or j[4])) then return 0 end
local last = 3 + 2 * tonumber(ARGV[3])
for i = 4, #ARGV, 2 do
  local name, n = ARGV[i], ARGV[i + 1]
  if i <= last then
    redis.call('HINCRBY', job_key(job), name, n)
  elseif string.sub(name, 1, 1) == '@' then
    redis.call('ZADD', slow_key(job), 'GT', n, string.sub(name, 2))
  elseif redis.call('HINCRBY', reasons_key(job), name, n) == 0 then
    redis.call('HDEL', reasons_key(job), name)
  end
end
if j[1] ~= 'cancelled' then redis.call('HSET', job_key(job), 'state', 'finished') end
redis.call('HSET', job_key(job), 'ended', now)
redis.call('HDEL', job_key(job), 'ending', 'ends')
tell(job, 'ended', redis.call('HGET', job_key(job), 'state'))
return 1
