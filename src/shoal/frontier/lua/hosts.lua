-- hosts.lua: what is known of hosts, and who waits for them; stands before every script.

-- What is known of a host is one packed table: read once in a call, changed by `set`, written by `write_hosts` at its
-- end. One that an operator has said something about is remembered, others are forgotten after a day.
local known_hosts, changed_hosts, listed = {}, {}, {}

local function know_host(host, packed)
  local h = packed and cmsgpack.unpack(packed) or { inflight = 0 }
  h.name = host
  known_hosts[host] = h
  return h
end

local function read_host(host)
  return known_hosts[host] or know_host(host, redis.call('GET', host_key(host)))
end

-- The first so many at once.
local function read_hosts(hosts, most)
  local names, keys = {}, {}
  for i = 1, min(#hosts, most) do
    local host = hosts[i]
    if not known_hosts[host] then
      names[#names + 1] = host
      keys[#keys + 1] = host_key(host)
    end
  end
  if #keys == 0 then return end
  for i, packed in ipairs(redis.call('MGET', unpack(keys))) do know_host(names[i], packed) end
end

-- A host of which fields were changed must be written.
local function changed(h) changed_hosts[h.name] = h end

-- nil takes a field away.
local function set(h, field, value)
  h[field] = value
  changed_hosts[h.name] = h
end

-- The host was asked or set: it is shown among the last.
local LIST_EVERY_MS = 10000
local function list_host(h)
  if now - (h.listed or 0) < LIST_EVERY_MS then return end
  set(h, 'listed', now)
  listed[#listed + 1] = now
  listed[#listed + 1] = h.name
end

local function write_hosts()
  for host, h in pairs(changed_hosts) do
    h.name = nil
    if h.set then
      redis.call('SET', host_key(host), cmsgpack.pack(h))
    else
      local rest = (h.hold or h.gone) and max(h.hold or 0, h.gone or 0, now) - now or 0
      redis.call('SET', host_key(host), cmsgpack.pack(h), 'EX', DAY_S + ceil(rest / 1000))
    end
    h.name = host
  end
  for i = 1, #listed, 1000 do
    redis.call('ZADD', HOSTS, unpack(listed, i, min(i + 999, #listed)))
  end
  changed_hosts, listed = {}, {}
end

-- What a job asks a bucket at, whose word that is, and what the bucket is booked at: the operator's word, the job's,
-- that of robots.txt where it is stricter than the default, the default. A job slower than others waits by itself; one with no limit books nothing. 0 is
-- unlimited. `j` has rate (nil: it does not say), rate0 and robots; `b` has rate and delay.
local function wanted_rate(j, b, h)
  local word = b.rate
  -- A host in a domain's bucket may have a word of its own: the stricter one holds.
  if h and h.rate and h.rate > 0 and not (word and word > 0 and word < h.rate) then word = h.rate end
  if word then return word, 'operator', word end
  local plain, source = j.rate0, 'default'
  if b.delay and j.robots and (plain == 0 or 1 / b.delay < plain) then plain, source = 1 / b.delay, 'robots' end
  if not j.rate then return plain, source, plain end
  if j.rate == 0 or plain == 0 or j.rate > plain then return j.rate, 'job', j.rate end
  return j.rate, 'job', plain
end

-- What was decided about a host, and why: the last few are kept, for people.
local NOTES_KEPT = 10
local function note(host, what, reason)
  redis.call('LPUSH', notes_key(host), string.format('%d %s %s', now, what, reason))
  redis.call('LTRIM', notes_key(host), 0, NOTES_KEPT - 1)
  redis.call('EXPIRE', notes_key(host), DAY_S)
end

-- Who waits for a bucket: a host of a job, or of its browser half.
local function waiter_of(job, host, half) return job .. ' ' .. host .. (half and ' +' or '') end
