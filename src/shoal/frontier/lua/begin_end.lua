-- begin_end.lua: somebody thinks that nothing of a job is left in any slot, and is about to seal them one by one.
-- ARGV[1] job   ARGV[2] token: who began before has to begin again
-- returns {its life, state, slot, …}; {} when it cannot end now: it is open, being rebuilt or over, or this server was
--   started anew and not all is made good yet
local job, whole = ARGV[1], redis.call('GET', WHOLE)
local j = redis.call('HMGET', job_key(job), 'state', 'life', 'ended', 'open', 'rebuild')
if not j[1] or j[3] or (j[1] ~= 'cancelled' and (j[4] == '1' or j[5])) then return {} end
if whole and not is_run(whole) then return {} end
redis.call('HSET', job_key(job), 'ending', ARGV[2])
return { j[2], j[1], unpack(redis.call('SMEMBERS', slots_key(job))) }
