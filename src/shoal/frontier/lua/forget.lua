-- forget.lua: drop the keys of a job that has ended and whose last sums are in the database.
-- ARGV[1] job   ARGV[2] at most this many buckets of seen
-- returns 1 when nothing is left, 0 to be called again, -1 when the job has not ended
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'ended', 'base', 'split', 'state')
if not j[4] then return 1 end
if not j[1] then return -1 end
local last = tonumber(j[2]) + tonumber(j[3]) - 1
local stop = math.max(0, last - tonumber(ARGV[2]) + 1)
for bucket = last, stop, -1 do redis.call('UNLINK', seen_key(job, bucket)) end
if stop > 0 then
  redis.call('HSET', job_key(job), 'base', stop, 'split', 0)
  return 0
end
redis.call('UNLINK', job_key(job), reasons_key(job), slow_key(job), ready_key(job), lag_key(job), delayed_key(job),
  spend_key(job))
redis.call('SREM', JOBS, job)
return 1
