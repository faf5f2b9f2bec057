-- drop_strays.lua: drop keys of a job that the frontier does not know; one that is only missing in the list comes back.
-- ARGV[1] job   ARGV[2..] triples: 'seen', bucket, ''; 'queue', host, level; or 'due', queue, tenant
-- returns {keys and places dropped, 1 when the job was put back into the list}
local job = ARGV[1]
if redis.call('HEXISTS', job_key(job), 'state') == 1 then return { 0, redis.call('SADD', JOBS, job) } end

local function drop(kind, name, more)
  if kind == 'seen' then return redis.call('UNLINK', seen_key(job, name)) end
  if kind == 'queue' then return redis.call('UNLINK', queue_key(job, name, more)) end
  local stood = redis.call('ZREM', turn_jobs_key(name, more), job)
  if redis.call('ZSCORE', due_jobs_key(name, more), job) then stood = 1 end
  set_due(name, more, job, NEVER)
  return stood
end

local dropped = redis.call('UNLINK', job_key(job), reasons_key(job), slow_key(job), ready_key(job), lag_key(job),
  render_key(job), delayed_key(job), spend_key(job), routes_key(job), alike_key(job)) + redis.call('SREM', JOBS, job)
for i = 2, #ARGV, 3 do dropped = dropped + drop(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
return { dropped, 0 }
