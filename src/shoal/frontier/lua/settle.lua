-- settle.lua: leases come to their end.
-- ARGV[1] how many settlements are pages that are done, with nothing more to say
-- ARGV blocks of 4 for these: group, index, latency_ms, received bytes
-- ARGV blocks of 12 for all others: group, index, outcome ('later' = a retry that is no attempt), reason, delay_ms, hold_ms,
--   latency_ms, received bytes, entry of a retry ('+' before it when it is for the browser from now on),
--   signal about the host ('?' behind it when the lease was a probe), bytes saved, ms between two requests to the host
--   when it was not asked after all (0 = it was)
-- returns {settlements refused because the lease was lost, job that ended by this call, …}
local SHORT, BLOCK = 4, 12
local LONG_FROM = 2 + SHORT * tonumber(ARGV[1])
local FIELD = { done = 'done', dead = 'dead', filtered = 'dropped', robots = 'dropped' }
local DONE = { outcome = 'done', reason = '', hold = 0, signal = 'ok', saved = 0, unasked = 0 }
DONE.__index = DONE
local touched, states, hosts, reasons = {}, {}, {}, {}

local function read(at)
  if at < LONG_FROM then
    return setmetatable({ latency = tonumber(ARGV[at + 2]), received = tonumber(ARGV[at + 3]) }, DONE)
  end
  return { outcome = ARGV[at + 2], reason = ARGV[at + 3], delay = tonumber(ARGV[at + 4]), hold = tonumber(ARGV[at + 5]),
    latency = tonumber(ARGV[at + 6]), received = tonumber(ARGV[at + 7]), entry = ARGV[at + 8], signal = ARGV[at + 9],
    saved = tonumber(ARGV[at + 10]), unasked = tonumber(ARGV[at + 11]) }
end

local function state_of(job)
  if states[job] == nil then
    local j = redis.call('HMGET', job_key(job), 'state', 'host_pages', 'host_bytes', 'rate', 'rate0', 'robots')
    states[job] = j[1] and { state = j[1], pages = (tonumber(j[2]) or 0) > 0, bytes = (tonumber(j[3]) or 0) > 0,
      rate = tonumber(j[4] or ''), rate0 = tonumber(j[5]) or 0, robots = j[6] == '1' } or false
  end
  return states[job]
end

local NO_REASONS = {}
local function because(seen, what, reason)
  if seen.why == NO_REASONS then seen.why = {} end
  seen.why[what] = reason
end

-- What a batch tells about a host, summed up: how many answers were ok, alive, busy, slow or down.
local function note_host(host, job, said)
  local seen = hosts[host]
  if not seen then
    seen = { n = 0, latency = 0, timed = 0, hold = 0, unasked = 0, spared = 0, job = job, limits = state_of(job),
      why = NO_REASONS }
    hosts[host] = seen
  end
  seen.n = seen.n + 1
  local latency, signal, unasked = said.latency, said.signal, said.unasked
  if said.hold > seen.hold then
    seen.hold = said.hold
    because(seen, 'hold', said.reason)
  end
  if unasked > 0 then seen.unasked, seen.spared = seen.unasked + unasked, seen.spared + 1 end
  if string.sub(signal, -1) == '?' then seen.probed, signal = true, string.sub(signal, 1, -2) end
  if signal == '' then return end
  if latency > 0 then seen.latency, seen.timed = seen.latency + latency, seen.timed + 1 end
  seen[signal] = (seen[signal] or 0) + 1
  if signal ~= 'ok' then because(seen, signal, said.reason) end
end

local function note_reason(job, outcome, reason)
  count(reason == '' and outcome or outcome .. ':' .. reason, 1)
  if reason == '' then return end
  reasons[job] = reasons[job] or {}
  local name = outcome .. ':' .. reason
  reasons[job][name] = (reasons[job][name] or 0) + 1
end

-- What a host has used of this job's budgets for each host.
local function spend(job, host, outcome, reason, received)
  local budgets = state_of(job)
  if budgets.pages and (FIELD[outcome] and outcome ~= 'done' or reason == 'redirect') then
    redis.call('HINCRBY', spend_key(job), 'p ' .. host, -1)
  end
  if budgets.bytes and received > 0 then redis.call('HINCRBY', spend_key(job), 'b ' .. host, received) end
end

-- Tells whether the request was handed over to the browser by this.
local PLUS = string.byte('+')
local function put_back(job, host, level, said)
  local entry, before = said.entry, level
  if string.byte(entry) == PLUS then
    entry, level = string.sub(entry, 2), render_level(redis.call('HGET', job_key(job), 'queue'), level)
  end
  if in_half(level) then open_half(job) end
  add_place(job, level, 'delayed', 1)
  if said.outcome == 'retry' then add(job, 'retries', 1) end
  redis.call('ZADD', delayed_key(job), now + said.delay, job .. ' ' .. host .. ' ' .. level .. ' ' .. entry)
  return in_half(level) and not in_half(before)
end

local function settle(job, host, level, said)
  local outcome, reason, received = said.outcome, said.reason, said.received
  touched[job] = true
  add_place(job, level, 'leased', -1)
  add(job, 'received', received)
  count('received', received)
  if said.saved > 0 then add(job, 'saved', said.saved) end
  spend(job, host, outcome, reason, received)
  if FIELD[outcome] then
    add(job, FIELD[outcome], 1)
    if reason == 'redirect' then add(job, 'redirects', 1) end
  elseif state_of(job).state == 'cancelled' then
    add(job, 'dropped', 1)
  else
    local handed_over = put_back(job, host, level, said)
    if handed_over then outcome = 'retry' end -- not counted as one, but its reason is
  end
  if outcome ~= 'later' then note_reason(job, outcome, reason) end
end

local function take(said, record)
  local job, host, level = string.match(record, '^(%S+) (%S+) (%d)')
  note_host(host, job, said)
  if state_of(job) then settle(job, host, level, said) end
end

-- A job's rate is taken over the last five to ten seconds: 'since' and 'mark' are two moments at least that far apart.
local WINDOW_MS = 5000
local function mark_rate(job)
  local j = redis.call('HMGET', job_key(job), 'done', 'mark', 'mark_done', 'started')
  local mark = tonumber(j[2]) or tonumber(j[4]) or now
  if now - mark < WINDOW_MS then return end
  redis.call('HSET', job_key(job), 'since', mark, 'since_done', j[3] or 0, 'mark', now, 'mark_done', j[1] or 0)
end

-- --- in the order of the leases ----------------------------------------------------------------------------------

local groups, order = {}, {}
local at = 2
while at < #ARGV do
  local group = ARGV[at]
  if not groups[group] then
    groups[group] = { indexes = {}, at = {} }
    order[#order + 1] = group
  end
  local g = groups[group]
  g.indexes[#g.indexes + 1] = ARGV[at + 1]
  g.at[ARGV[at + 1]] = g.at[ARGV[at + 1]] or at
  at = at + (at < LONG_FROM and SHORT or BLOCK)
end

local late = 0
for _, group in ipairs(order) do
  local g = groups[group]
  late = late + take_leases(group, g.indexes, function(index, record) take(read(g.at[index]), record) end)
end
local names = {}
for host in pairs(hosts) do names[#names + 1] = host end
read_hosts(names, #names)
for host, seen in pairs(hosts) do learn(host, seen, touched) end
write_slowest()
for job, names in pairs(reasons) do
  for name, n in pairs(names) do redis.call('HINCRBY', reasons_key(job), name, n) end
end
count('late', late)
local jobs = {}
for job in pairs(touched) do jobs[#jobs + 1] = job end
local ended = finish_moves(touched)
for _, job in ipairs(jobs) do mark_rate(job) end
return { late, unpack(ended) }
