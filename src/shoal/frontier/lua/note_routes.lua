-- note_routes.lua: pages of a job needed a browser, or did not; remembered for others like them.
-- ARGV[1] job   ARGV[2] at most this many patterns are kept
-- ARGV[3..] triples: 'host pattern', 1 when the page needed a browser, 1 when it was looked at without one
-- returns patterns that were left out because there are too many; -1 when the job is unknown
local job, most = ARGV[1], tonumber(ARGV[2])
if redis.call('EXISTS', job_key(job)) == 0 then return -1 end
local known, left_out = redis.call('HLEN', routes_key(job)), 0
for i = 3, #ARGV, 3 do
  local route = redis.call('HGET', routes_key(job), ARGV[i])
  if route or known < most then
    local http, browser, checked = string.match(route or '0 0 0', '^(%d+) (%d+) (%d+)$')
    if ARGV[i + 1] == '1' then browser = browser + 1 else http = http + 1 end
    if ARGV[i + 2] == '1' then checked = now end
    known = known + redis.call('HSET', routes_key(job), ARGV[i], string.format('%d %d %d', http, browser, checked))
  else
    left_out = left_out + 1
  end
end
return left_out
