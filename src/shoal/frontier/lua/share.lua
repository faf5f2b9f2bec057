-- share.lua: a slot's share of a job's budget of pages.
-- A slot may let in so many pages in all: what has died here since is given out anew by the list of jobs, to whom it may.
-- ARGV[1] job with its life   ARGV[2] all that it may have; '-' for just what it has used; '' to be told
-- ARGV[3] version: an older one changes nothing   ARGV[4] pages of these that come back, and are not let in
-- returns {all that it may have, what it has used, version}; {} when the job is unknown. The version is -1 when what it
--   may have was told to another run of the server, which may have given it up since and forgotten that
local job, run = ARGV[1], redis.call('GET', SERVER)
local j = redis.call('HMGET', job_key(job), 'state', 'pages', 'share', 'admitted', 'dead', 'dropped', 'redirects', 'share_run')
if not j[1] then return {} end
local function number(i) return tonumber(j[i]) or 0 end
local gone = number(5) + number(6) + number(7)
local used, limit = number(4) - gone, number(2) - gone
if ARGV[2] == '' or tonumber(ARGV[3]) < number(3) then
  if j[8] ~= run then return { min(limit, used), used, -1 } end
  return { limit, used, number(3) }
end
limit = (ARGV[2] == '-' and used or tonumber(ARGV[2])) - tonumber(ARGV[4])
redis.call('HSET', job_key(job), 'pages', string.format('%d', limit + gone), 'share', ARGV[3], 'share_run', run)
return { limit, used, tonumber(ARGV[3]) }
