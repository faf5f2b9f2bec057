-- begin_end.lua: somebody thinks that nothing of a job is left in any slot, and is about to seal them one by one.
-- Who began before him has to begin again.
-- ARGV[1] job
-- returns {token, the job's life, state, slot, …}; {} when it cannot end now: it is open, being rebuilt or over, or this
--   server was started anew and not all is made good yet
local job, whole = ARGV[1], redis.call('GET', WHOLE)
local j = redis.call('HMGET', job_key(job), 'state', 'life', 'ended', 'open', 'rebuild', 'ends')
if not j[1] or j[3] or (j[1] ~= 'cancelled' and (j[4] == '1' or j[5])) then return {} end
if whole and not is_run(whole) then return {} end
-- Beyond all before it, also such as were forgotten.
local number = max((tonumber(j[6]) or 0) + 1, now)
local token = end_token(number)
redis.call('HSET', job_key(job), 'ends', string.format('%d', number), 'ending', token)
return { token, j[2], j[1], unpack(redis.call('SMEMBERS', slots_key(job))) }
