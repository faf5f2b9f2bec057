-- remember.lua: fingerprints that a restored job has seen; counts nothing.
-- ARGV[1] job   ARGV[2..] fingerprints
-- returns 1, or 0 when the job is unknown
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'base', 'split')
if not j[1] then return 0 end
local base, split = tonumber(j[1]), tonumber(j[2])
for i = 2, #ARGV do
  redis.call('SADD', seen_key(job, bucket_of(ARGV[i], base, split)), ARGV[i])
end
return 1
