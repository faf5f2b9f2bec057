-- borrow.lua: lend proxies to requests: to a host or session the one that it has had while that is well, else the best.
-- ARGV[1] token of this call   ARGV[2] number of groups; then for each group:
--   requests at once (0: any), ms between two requests (0: none), n, n proxies in random order;
-- then for each want: number of its group, what keeps to one proxy ('': nothing), ms after which the loan is forgotten
-- returns for each want {proxy, token}, or {ms after which to ask again}
local FULL_MS = 250
local BURST_MS = 100
local LONGEST_WAIT_MS = 600000
local moment = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000

local known = {}
local function state_of(proxy)
  local s = known[proxy]
  if s then return s end
  local h = redis.call('HMGET', proxy_key(proxy), 'slot', 'lent', 'score', 'scored', 'rest', 'rests')
  s = {
    slot = tonumber(h[1]) or 0,
    lent = tonumber(h[2]) or 0,
    -- In quarters: who failed once is not worse than who never did.
    class = math.ceil(score_now(h[3], h[4]) * 4),
    rest = tonumber(h[5]) or 0,
    trial = (tonumber(h[6]) or 0) > 0,
    out = redis.call('ZCOUNT', loans_key(proxy), '(' .. now, '+inf'),
  }
  known[proxy] = s
  return s
end

-- Ms until the proxy can be lent, as far as can be said. After a rest it is tried with one request.
local function wait_for(s, group)
  if s.rest > now then return s.rest - now end
  if s.trial and s.out > 0 then return FULL_MS end
  if group.parallel > 0 and s.out >= group.parallel then return FULL_MS end
  if group.interval > 0 then return math.max(0, math.ceil(s.slot - BURST_MS - now)) end
  return 0
end

local function is_better(a, b)
  if a.class ~= b.class then return a.class > b.class end
  if a.out ~= b.out then return a.out < b.out end
  return a.lent < b.lent
end

-- (the best proxy that can be lent now, or nil; ms until one can)
local function best_of(group)
  local best, wait = nil, LONGEST_WAIT_MS
  for _, proxy in ipairs(group.proxies) do
    local s = state_of(proxy)
    local left = wait_for(s, group)
    wait = math.min(wait, left)
    if left == 0 and (not best or is_better(s, known[best])) then best = proxy end
  end
  return best, wait
end

local function lend(proxy, group, number, lasts_ms)
  local s = state_of(proxy)
  local token = ARGV[1] .. ':' .. number
  s.out = s.out + 1
  s.lent = moment + number / 1000
  redis.call('HSET', proxy_key(proxy), 'lent', string.format('%.3f', s.lent))
  if group.interval > 0 then
    s.slot = math.max(s.slot, now) + group.interval
    redis.call('HSET', proxy_key(proxy), 'slot', string.format('%.3f', s.slot))
  end
  redis.call('EXPIRE', proxy_key(proxy), DAY_S)
  redis.call('ZREMRANGEBYSCORE', loans_key(proxy), '-inf', now)
  redis.call('ZADD', loans_key(proxy), now + lasts_ms, token)
  redis.call('EXPIRE', loans_key(proxy), DAY_S)
  return { proxy, token }
end

-- What keeps to a proxy waits for it while it is well, and takes another when it rests.
local function serve(group, sticky, number, lasts_ms)
  local proxy = sticky ~= '' and redis.call('GET', sticky_key(sticky))
  if proxy and state_of(proxy).rest <= now then
    local wait = wait_for(state_of(proxy), group)
    if wait > 0 then return { wait } end
  else
    local best, wait = best_of(group)
    if not best then return { wait } end
    proxy = best
  end
  if sticky ~= '' then redis.call('SET', sticky_key(sticky), proxy, 'EX', DAY_S) end
  return lend(proxy, group, number, lasts_ms)
end

local at = 3
local function take()
  at = at + 1
  return ARGV[at - 1]
end

local groups = {}
for i = 1, tonumber(ARGV[2]) do
  local group = { parallel = tonumber(take()), interval = tonumber(take()), proxies = {} }
  for j = 1, tonumber(take()) do group.proxies[j] = take() end
  groups[i] = group
end

local answers = {}
while at <= #ARGV do
  local group, sticky, lasts_ms = groups[tonumber(take())], take(), tonumber(take())
  local number = #answers + 1
  answers[number] = serve(group, sticky, number, lasts_ms)
end
return answers
