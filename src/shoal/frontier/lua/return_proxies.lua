-- return_proxies.lua: take back proxies that were lent, and learn from how they did.
-- ARGV[1…] for each: proxy, token, verdict ('': none), ms of its first rest
-- returns how many were still lent; the others change nothing
local WEIGHT = 0.2
local FAILURES = 3
local LONGEST_REST_MS = 600000

-- Three failures in a row, one refusal, or a failure when it was tried again after a rest.
local function must_rest(verdict, failures, rests)
  return verdict == 'refused' or (verdict == 'failed' and (failures >= FAILURES or rests > 0))
end

local function learn(proxy, verdict, cool_down_ms)
  local h = redis.call('HMGET', proxy_key(proxy), 'score', 'scored', 'failures', 'rest', 'rests')
  local score, failures, rest, rests = score_now(h[1], h[2]), tonumber(h[3]) or 0, tonumber(h[4]) or 0, tonumber(h[5]) or 0
  if verdict == 'ok' then
    score, failures, rest, rests = score + WEIGHT * (1 - score), 0, 0, 0
  else
    score = score * (1 - WEIGHT)
    if verdict ~= 'doubtful' then failures = failures + 1 end
    -- Those that were under way when it was sent to rest do not make the rest longer.
    if rest <= now and must_rest(verdict, failures, rests) then
      local most = math.max(LONGEST_REST_MS, cool_down_ms)
      rest = now + math.min(most, cool_down_ms * 2 ^ math.min(rests, 30))
      rests = rests + 1
    end
  end
  redis.call('HSET', proxy_key(proxy), 'score', string.format('%.4f', score), 'scored', now, 'failures', failures,
    'rest', string.format('%.0f', rest), 'rests', rests)
  redis.call('EXPIRE', proxy_key(proxy), DAY_S)
end

local returned = 0
for i = 1, #ARGV, 4 do
  local proxy, token, verdict, cool_down_ms = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  if redis.call('ZREM', loans_key(proxy), token) == 1 then
    returned = returned + 1
    if verdict ~= '' then learn(proxy, verdict, cool_down_ms) end
  end
end
return returned
