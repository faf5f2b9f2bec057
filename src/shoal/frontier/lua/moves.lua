-- moves.lua: the moves of requests that several operations share; stands before every script.

-- Everything of a job that waits is dropped; returns how much that was.
local function drop_waiting(job)
  for _, list in ipairs({ ready_key(job), lag_key(job), render_key(job) }) do
    local half = list == render_key(job)
    local first = half and RENDER or 0
    for _, host in ipairs(redis.call('ZRANGE', list, 0, -1)) do
      redis.call('UNLINK', queue_key(job, host, first), queue_key(job, host, first + 1), queue_key(job, host, first + 2))
      redis.call('ZREM', waiters_key(host), waiter_of(job, host, half))
    end
  end
  redis.call('UNLINK', ready_key(job), lag_key(job), render_key(job), delayed_key(job))
  local j = redis.call('HMGET', job_key(job), 'queued', 'delayed', 'render_queued', 'render_delayed')
  local queued, delayed = tonumber(j[1]) or 0, tonumber(j[2]) or 0
  add(job, 'queued', -queued)
  add(job, 'delayed', -delayed)
  add(job, 'render_queued', -(tonumber(j[3]) or 0))
  add(job, 'render_delayed', -(tonumber(j[4]) or 0))
  add(job, 'dropped', queued + delayed)
  write_sums()
  return queued + delayed
end

-- Has the job come to its end just now? True exactly once in its life; not before it is rebuilt. Of a slot, this tells
-- that nothing of the job is left there for now: `end_job` ends it.
local function ends_now(job)
  if IN_LIST then return false end
  local j = redis.call('HMGET', job_key(job), 'state', 'ended', 'open', 'queued', 'delayed', 'leased', 'queue', 'tenant',
    'rebuild')
  if not j[1] or j[2] then return false end
  local leased = tonumber(j[6]) or 0
  local pending = (tonumber(j[4]) or 0) + (tonumber(j[5]) or 0) + leased
  local over = (j[1] == 'cancelled' and leased == 0) or (j[1] ~= 'cancelled' and j[3] ~= '1' and not j[9] and pending == 0)
  if not over then return false end
  if IN_SLOT then
    refresh_due(job)
    return true
  end
  if j[1] ~= 'cancelled' then redis.call('HSET', job_key(job), 'state', 'finished') end
  redis.call('HSET', job_key(job), 'ended', now)
  tell(job, 'ended', redis.call('HGET', job_key(job), 'state'))
  leave_queue(job, j[7], j[8])
  return true
end
