-- configure_host.lua: an operator's word on a host; stronger than what jobs ask for.
-- ARGV[1] host, or bucket of a domain   ARGV[2..] pairs: rate, parallel (0 = unlimited), paused (1), or hold (ms from now);
-- '' takes the word back
-- returns 1
local LOOK_PER_JOB, LOOK_AT_MOST = 1000, 20000
local h, touched, words = read_host(ARGV[1]), {}, {}
local rate = h.rate

-- --- what was said, for people -----------------------------------------------------------------------------------

local function number(n) return string.format(n >= 100 and '%.0f' or '%.3g', n) end

local function span(s)
  if s < 60 then return number(s) .. ' s' end
  return s < 3600 and number(s / 60) .. ' min' or number(s / 3600) .. ' h'
end

local function a_rate(r)
  if r == 0 then return 'no limit of the rate' end
  if r >= 1 then return number(r) .. ' a second' end
  return r * 60 >= 1 and number(r * 60) .. ' a minute' or number(r * 3600) .. ' an hour'
end

local SAID = {
  rate = function(value) return value and a_rate(value) or 'rate back to what jobs say' end,
  parallel = function(value)
    if not value then return 'number at once back to what jobs say' end
    return (value == 0 and 'any number' or number(value)) .. ' at once'
  end,
  paused = function(value) return value and 'paused' or 'resumed' end,
  hold = function(value) return value and 'held for ' .. span(value / 1000) or 'hold ended' end,
}

-- A hold that is over is none, and one of the same length is another one.
local function changes(field, value)
  if field == 'hold' then return value or (h.hold or 0) > now end
  return h[field] ~= value
end

-- --- who waits ---------------------------------------------------------------------------------------------------

-- The hosts of a domain wait for its rate and its hold each by itself, in their jobs' lists. Those that are not looked
-- at ask again when the time has come that they were put off to.
local function wake_group(jobs)
  local left = LOOK_AT_MOST
  for _, job in ipairs(jobs) do
    for _, list in ipairs({ ready_key(job), lag_key(job), render_key(job) }) do
      local hosts = redis.call('ZRANGEBYSCORE', list, '(' .. now, '(inf', 'LIMIT', 0, min(LOOK_PER_JOB, left))
      left = left - #hosts
      read_hosts(hosts, #hosts)
      for _, host in ipairs(hosts) do
        if read_host(host).group == h.name then wake(job, host, list == render_key(job), touched) end
      end
    end
    if left <= 0 then return end
  end
end

for i = 2, #ARGV, 2 do
  local field, value = ARGV[i], tonumber(ARGV[i + 1])
  if changes(field, value) then words[#words + 1] = SAID[field](value) end
  set(h, field, value and field == 'hold' and now + value or value)
end
-- A slot that was booked at another rate binds nobody, and jobs that were put off may ask again at once.
if h.rate ~= rate then set(h, 'slot', nil) end
local jobs = redis.call('SMEMBERS', JOBS)
for _, job in ipairs(jobs) do
  wake(job, h.name, false, touched)
  wake(job, h.name, true, touched)
end
wake_waiters(h, 100000, touched)
if #words > 0 then
  note(h.name, 'set', 'an operator: ' .. table.concat(words, ', '))
  if string.sub(h.name, 1, 1) == '@' then wake_group(jobs) end
end
set(h, 'set', (h.rate or h.parallel or h.paused) and 1 or nil)
h.listed = nil -- it comes first in the list at once
host_returned(h, 0, touched)
finish_moves(touched)
return 1
