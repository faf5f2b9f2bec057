-- drop.lua: everything of a job leaves the frontier, whatever its state: it is older than what the database knows.
-- ARGV[1] job   ARGV[2] at most this many buckets of seen   ARGV[3] the claim under which it is dropped, '' for none
-- ARGV[4] ms that the claim lasts from now on
-- returns 1 when nothing is left, 0 to be called again; until then it is marked as one to be dropped
--   -1 when somebody else has the claim by now (then nothing changes)
local job, touched, gone = ARGV[1], {}, {}
if ARGV[3] ~= '' then
  if redis.call('GET', ring_key('recovery')) ~= ARGV[3] then return -1 end
  redis.call('PEXPIRE', ring_key('recovery'), ARGV[4])
end

-- Its leases are void: who settles one comes too late.
local function void(group)
  local left = redis.call('HGETALL', lease_key(group))
  for i = 1, #left, 2 do
    local owner, host = split_record(left[i + 1])
    if owner == job then
      redis.call('HDEL', lease_key(group), left[i])
      gone[host] = (gone[host] or 0) + 1
    end
  end
  if redis.call('EXISTS', lease_key(group)) == 0 then redis.call('ZREM', LEASES, group) end
end

local j = redis.call('HMGET', job_key(job), 'queue', 'tenant', 'base', 'split', 'leased', 'render_leased')
if not j[1] then return 1 end
for _, group in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do void(group) end
for host, n in pairs(gone) do host_returned(read_host(host), n, touched) end
touched[job] = nil
drop_waiting(job)
add(job, 'leased', -(tonumber(j[5]) or 0))
add(job, 'render_leased', -(tonumber(j[6]) or 0))
finish_moves(touched)
redis.call('HSET', job_key(job), 'rebuild', 'recall drop 0 0 -')
leave_queue(job, j[1], j[2])
return drop_keys(job, j[3], j[4], tonumber(ARGV[2]))
