-- restore.lua: make a job known again that had ended, or was lost, with the sums that it had; open until `close`.
-- ARGV[1] job   ARGV[2] how many URLs it has seen   ARGV[3] tenant   ARGV[4] its weight
-- ARGV[5..] pairs: fields of the job's hash; these may say that it is paused, not open, or still to be rebuilt
-- returns 1, or 0 when the job is known (then nothing changes)
local job = ARGV[1]
if redis.call('EXISTS', job_key(job)) == 1 then return 0 end
local base, split = buckets_for(tonumber(ARGV[2]))
redis.call('HSET', job_key(job), 'state', 'running', 'open', '1', 'base', base, 'split', split, 'created', now,
  'tenant', ARGV[3], unpack(ARGV, 5))
local done = redis.call('HGET', job_key(job), 'done') or 0
redis.call('HSET', job_key(job), 'since', now, 'since_done', done, 'mark', now, 'mark_done', done)
if IN_LIST then redis.call('HSET', job_key(job), 'agreed', this_run()) end -- nothing of its budget is given out
redis.call('HSET', TENANTS, ARGV[3], ARGV[4])
redis.call('SADD', JOBS, job)
tell(job, 'state', redis.call('HGET', job_key(job), 'state'))
return 1
