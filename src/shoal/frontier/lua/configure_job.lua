-- configure_job.lua: change a job's limits or its queue while it runs.
-- ARGV[1] job   ARGV[2..] pairs: queue, rate, burst, parallel, weight, pages (as in create)
-- returns its state, '' when it is unknown
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'queue', 'queued', 'delayed', 'leased')
if not j[1] then return '' end
redis.call('HSET', job_key(job), unpack(ARGV, 2))
local queue = redis.call('HGET', job_key(job), 'queue')
if queue ~= j[2] then
  redis.call('ZREM', due_key(j[2]), job)
  redis.call('ZREM', turn_key(j[2]), job)
  for i, place in ipairs({ 'queued', 'delayed', 'leased' }) do
    local n = tonumber(j[i + 2]) or 0
    if n ~= 0 then
      redis.call('HINCRBY', depth_key(j[2]), place, -n)
      redis.call('HINCRBY', depth_key(queue), place, n)
    end
  end
end
-- Under new limits every host may be asked at once; those that cannot take more yet say so at the next lease.
for _, host in ipairs(redis.call('ZRANGEBYSCORE', ready_key(job), '+inf', '+inf')) do
  redis.call('SREM', waiters_key(host), job)
end
redis.call('ZUNIONSTORE', ready_key(job), 1, ready_key(job), 'WEIGHTS', 0)
refresh_due(job)
tell(job, 'changed', j[1])
return j[1]
