-- share.lua: a slot's share of a job's budget of pages.
-- ARGV[1] job with its life   ARGV[2] all that it may have; '-' for no more than it has used; '' to be told
-- ARGV[3] version: an older one changes nothing
-- returns {all that it may have, what it has used, version}; {} when the job is unknown
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'pages', 'share', 'admitted', 'dead', 'dropped', 'redirects')
if not j[1] then return {} end
local function number(i) return tonumber(j[i]) or 0 end
local used, limit = number(4) - number(5) - number(6) - number(7), number(2)
if ARGV[2] == '' or tonumber(ARGV[3]) < number(3) then return { limit, used, number(3) } end
limit = ARGV[2] == '-' and min(limit, used) or tonumber(ARGV[2])
redis.call('HSET', job_key(job), 'pages', string.format('%d', limit), 'share', ARGV[3])
return { limit, used, tonumber(ARGV[3]) }
