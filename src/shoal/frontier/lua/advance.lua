-- advance.lua: the rebuilding of a job has come to another place.
-- ARGV[1] job   ARGV[2] the place that it was at   ARGV[3] the next one; '' when the job is complete
-- returns {the place where it is now, '' when nothing is (any more) rebuilt; 1 when this call ended the job}
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'rebuild', 'done', 'state')
if j[1] ~= ARGV[2] then return { j[1] or '', 0 } end
if ARGV[3] ~= '' then
  redis.call('HSET', job_key(job), 'rebuild', ARGV[3])
  -- What was recalled was not fetched just now.
  redis.call('HSET', job_key(job), 'since', now, 'since_done', j[2] or 0, 'mark', now, 'mark_done', j[2] or 0)
  return { ARGV[3], 0 }
end
-- Whatever was recalled was met once more, where it was first found; that one time it had not been seen before.
local d = redis.call('HMGET', job_key(job), 'duplicates', 'recalled')
-- In a list of jobs, what was met once more is counted in the slots.
local met = (tonumber(d[1]) or 0) - (tonumber(d[2]) or 0)
redis.call('HSET', job_key(job), 'duplicates', IN_LIST and met or max(0, met))
redis.call('HDEL', job_key(job), 'rebuild', 'recalled')
count('rebuilt', 1)
write_sums()
if ends_now(job) then return { '', 1 } end
refresh_due(job)
tell(job, 'changed', j[3])
return { '', 0 }
