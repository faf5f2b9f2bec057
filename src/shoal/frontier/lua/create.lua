-- create.lua: make a job known to the frontier; it stays open until `close`.
-- ARGV[1] job   ARGV[2] URLs that are about to come   ARGV[3] tenant   ARGV[4] its weight
-- ARGV[5..] pairs: fields of the job's hash: queue, weight, limits ('' = the job does not say, 0 = unlimited), budgets
-- returns 1, or 0 when the job was known already (then nothing changes)
local job = ARGV[1]
if redis.call('EXISTS', job_key(job)) == 1 then return 0 end
local base, split = buckets_for(tonumber(ARGV[2]))
redis.call('HSET', job_key(job), 'state', 'running', 'open', '1', 'base', base, 'split', split, 'created', now,
  'tenant', ARGV[3], unpack(ARGV, 5))
if IN_LIST then redis.call('HSET', job_key(job), 'agreed', this_run()) end -- nothing of its budget is given out
redis.call('HSET', TENANTS, ARGV[3], ARGV[4])
redis.call('SADD', JOBS, job)
tell(job, 'state', 'running')
return 1
