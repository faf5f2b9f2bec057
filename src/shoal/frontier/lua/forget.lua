-- forget.lua: drop the keys of a job that has ended and whose last sums are in the database.
-- ARGV[1] job   ARGV[2] at most this many buckets of seen
-- returns 1 when nothing is left, 0 to be called again, -1 when the job has not ended
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'ended', 'base', 'split', 'state')
if not j[4] then return 1 end
if not j[1] then return -1 end
return drop_keys(job, j[2], j[3], tonumber(ARGV[2]))
