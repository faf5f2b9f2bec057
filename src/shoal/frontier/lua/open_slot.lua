-- open_slot.lua: a job is made known to this slot; it is ended from outside.
-- ARGV[1] job with its life   ARGV[2] tenant   ARGV[3] its weight   ARGV[4] ms since its first lease, without pauses, or ''
-- ARGV[5] URLs that are about to come   ARGV[6..] pairs: fields of the job's hash
-- returns 1, or 0 when the job was known already (then nothing changes)
local job = ARGV[1]
if redis.call('EXISTS', job_key(job)) == 1 then return 0 end
local base, split = buckets_for(tonumber(ARGV[5]))
redis.call('HSET', job_key(job), 'state', 'running', 'open', '0', 'base', base, 'split', split, 'created', now,
  'tenant', ARGV[2], unpack(ARGV, 6))
redis.call('HSET', TENANTS, ARGV[2], ARGV[3])
redis.call('SADD', JOBS, job)
if ARGV[4] ~= '' then
  local started, seconds = now - tonumber(ARGV[4]), tonumber(redis.call('HGET', job_key(job), 'seconds')) or 0
  redis.call('HSET', job_key(job), 'started', string.format('%d', started))
  if seconds > 0 then redis.call('HSET', job_key(job), 'deadline', string.format('%d', started + seconds * 1000)) end
end
return 1
