-- note_share.lua: a slot has given up what it did not use of its share of the budget.
-- ARGV[1] job   ARGV[2] its life   ARGV[3] slot   ARGV[4] all that it may have now
-- ARGV[5] version under which it gave up; '' to raise what is written down to this at least
-- returns 1, or 0 when it has got more meanwhile (then nothing changes)
local job, slot = ARGV[1], ARGV[3]
if redis.call('HGET', job_key(job), 'life') ~= ARGV[2] then return 0 end
local pages, version = string.match(redis.call('HGET', shares_key(job), slot) or '0 0', '^(%-?%d+) (%d+)$')
if ARGV[5] == '' and tonumber(pages) >= tonumber(ARGV[4]) then return 0 end
if ARGV[5] ~= '' and version ~= ARGV[5] then return 0 end
redis.call('HSET', shares_key(job), slot, string.format('%d %d', ARGV[4], tonumber(version) + 1))
return 1
