-- note_share.lua: what a slot has of the budget is written down as the slot says.
-- ARGV[1] job   ARGV[2] its life   ARGV[3] slot   ARGV[4] all that it may have now
-- ARGV[5] version under which it gave up what it did not use; '' when this server may have forgotten what it knew
-- ARGV[6] then, the version that the slot knows
-- returns 1, or 0 when it has got more meanwhile (then nothing changes)
local job, slot = ARGV[1], ARGV[3]
if redis.call('HGET', job_key(job), 'life') ~= ARGV[2] then return 0 end
local version = string.match(redis.call('HGET', shares_key(job), slot) or '0 0', '^%-?%d+ (%d+)$')
if ARGV[5] ~= '' and version ~= ARGV[5] then return 0 end
-- Beyond all versions that may have been forgotten.
if ARGV[5] == '' then version = max(version, ARGV[6]) + 1000 end
redis.call('HSET', shares_key(job), slot, string.format('%d %d', ARGV[4], version))
return 1
