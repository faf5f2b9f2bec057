-- find_entry.lua: look for a URL among some entries of a host's queue, from its end on; changes nothing.
-- Who looks call by call from the end misses nothing: entries are taken from the front, and what comes meanwhile comes
-- behind what was looked at.
-- ARGV[1] job   ARGV[2] host   ARGV[3] level   ARGV[4] 'h' or 's'   ARGV[5] path and query
-- ARGV[6] entries from the end that were looked at before   ARGV[7] entries to look at
-- returns {entries before the one found (-1 = not found), the entry, entries that are left}
local list, flag, target = queue_key(ARGV[1], ARGV[2], ARGV[3]), ARGV[4], ARGV[5]
local before, most = tonumber(ARGV[6]), tonumber(ARGV[7])
local length = redis.call('LLEN', list)
local last = length - before - 1
local first = max(0, last - most + 1)
if last < 0 then return { -1, '', 0 } end

-- No path has a tab: what a spider sends along stands behind one.
local function is_it(entry)
  local at = string.find(entry, '/', 1, true)
  local stop = at + #target
  if string.sub(entry, at, stop - 1) ~= target or string.sub(entry, 1, 1) ~= flag then return false end
  return stop > #entry or string.sub(entry, stop, stop) == '\t'
end

local entries = redis.call('LRANGE', list, first, last)
for i = #entries, 1, -1 do
  if string.find(entries[i], target, 1, true) and is_it(entries[i]) then return { first + i - 1, entries[i], first } end
end
return { -1, '', first }
