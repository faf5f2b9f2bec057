-- cut_share.lua: under a new budget, a job has in this slot what it has used, less some that wait and are dropped.
-- ARGV[1] job with its life   ARGV[2] version: an older one changes nothing, nor does the same one twice
-- ARGV[3] how many are dropped, as far as they wait in queues
-- returns {all that it may have, how many were dropped under this version, version}; {} when the job is unknown
local job, version = ARGV[1], tonumber(ARGV[2])
local function read()
  return redis.call('HMGET', job_key(job), 'state', 'pages', 'share', 'cut', 'admitted', 'dead', 'dropped', 'redirects')
end
local j = read()
local function number(i) return tonumber(j[i]) or 0 end
if not j[1] then return {} end
local function gone() return number(6) + number(7) + number(8) end
if version <= number(3) then return { number(2) - gone(), version == number(3) and number(4) or 0, number(3) } end
local dropped = drop_last(job, tonumber(ARGV[3]))
j = read()
redis.call('HSET', job_key(job), 'pages', number(5), 'share', ARGV[2], 'share_run', redis.call('GET', SERVER), 'cut', dropped)
refresh_due(job)
return { number(5) - gone(), dropped, version }
