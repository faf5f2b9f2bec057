-- note_fact.lua: something is written down of a job in the list; of one that is unknown, or lives another life, nothing.
-- ARGV[1] job   ARGV[2] its life, '' for any   ARGV[3] field   ARGV[4] '=' to set it, '?' unless it is set, '+' to add
-- ARGV[5] value; of a moment, '' is now, and none is before the job was there or after now
-- returns 1 when this changed something
local job, field, how, value = ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local j = redis.call('HMGET', job_key(job), 'life', 'created')
if not j[1] or (ARGV[2] ~= '' and j[1] ~= ARGV[2]) then return 0 end
if how == '+' then
  redis.call('HINCRBY', job_key(job), field, value)
elseif how == '=' then
  redis.call('HSET', job_key(job), field, value)
else
  local at = value == '' and now or min(max(tonumber(value), tonumber(j[2]) or 0), now)
  return redis.call('HSETNX', job_key(job), field, string.format('%d', at))
end
return 1
