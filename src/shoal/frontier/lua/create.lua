-- create.lua: make a job known to the frontier; it stays open until `close`.
-- ARGV[1] job   ARGV[2] queue   ARGV[3] rate (0 = unlimited)   ARGV[4] burst   ARGV[5] parallel (0 = unlimited)
-- ARGV[6] weight   ARGV[7] page budget (0 = none)   ARGV[8] URLs that are about to come
-- returns 1, or 0 when the job was known already (then nothing changes)
local job = ARGV[1]
if redis.call('EXISTS', job_key(job)) == 1 then return 0 end
local base, split = buckets_for(tonumber(ARGV[8]))
redis.call('HSET', job_key(job), 'state', 'running', 'queue', ARGV[2], 'rate', ARGV[3], 'burst', ARGV[4],
  'parallel', ARGV[5], 'weight', ARGV[6], 'pages', ARGV[7], 'open', '1', 'base', base, 'split', split,
  'created', now)
redis.call('SADD', JOBS, job)
tell(job, 'state', 'running')
return 1
