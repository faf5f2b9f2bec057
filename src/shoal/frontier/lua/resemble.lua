-- resemble.lua: which of these pages say what an earlier page of their job says; those that do not are remembered.
-- ARGV[1..] blocks of 4: job, distance in bits, fingerprint, hash as 16 hex digits (for distance 0, of all words)
-- returns for each page the fingerprint of the earlier one; '' when there is none, or when the job is unknown
-- Safe to repeat: a page that is remembered is not like itself. Memory: with a distance of 3, about 250 bytes for each
-- page that is not like an earlier one.
-- alike:{J} has two kinds of fields: '=hash' → fingerprint; and, for each band of bits, 'band:its bits' → hashes with
-- these. Hashes at most d bits apart have the same bits in at least one of d + 1 bands.
local MOST_IN_BAND = 200
local BITS = 64

local ONES = {}
for byte = 0, 255 do
  local n, left = 0, byte
  while left > 0 do
    n = n + left % 2
    left = floor(left / 2)
  end
  ONES[byte] = n
end

local function apart(a, b)
  local n = 0
  for i = 1, 13, 4 do
    local x = bit.bxor(tonumber(string.sub(a, i, i + 3), 16), tonumber(string.sub(b, i, i + 3), 16))
    n = n + ONES[x % 256] + ONES[floor(x / 256)]
  end
  return n
end

-- The bits of a band, by hex digits: bands are as even as whole digits can be.
local function bands_of(hash, distance)
  local found, digits = {}, BITS / 4
  for band = 0, distance do
    local first = floor(band * digits / (distance + 1)) + 1
    local last = floor((band + 1) * digits / (distance + 1))
    found[#found + 1] = band .. ':' .. string.sub(hash, first, last)
  end
  return found
end

local function nearest(job, bands, hash, distance)
  local best, best_distance = nil, distance + 1
  for _, band in ipairs(bands) do
    local hashes = redis.call('HGET', alike_key(job), band) or ''
    for i = 1, #hashes, 16 do
      local other = string.sub(hashes, i, i + 15)
      local n = apart(hash, other)
      if n < best_distance then best, best_distance = other, n end
    end
  end
  return best and redis.call('HGET', alike_key(job), '=' .. best)
end

local function remember(job, bands, hash, fingerprint)
  redis.call('HSET', alike_key(job), '=' .. hash, fingerprint)
  for _, band in ipairs(bands) do
    local hashes = redis.call('HGET', alike_key(job), band) or ''
    if #hashes < MOST_IN_BAND * 16 then redis.call('HSET', alike_key(job), band, hashes .. hash) end
  end
end

local function resembles(job, distance, fingerprint, hash)
  if redis.call('HEXISTS', job_key(job), 'state') == 0 then return '' end
  local same = redis.call('HGET', alike_key(job), '=' .. hash)
  if same then return same ~= fingerprint and same or '' end
  local bands = distance > 0 and bands_of(hash, distance) or {}
  local earlier = nearest(job, bands, hash, distance)
  if earlier and earlier ~= fingerprint then return earlier end
  remember(job, bands, hash, fingerprint)
  return ''
end

local found = {}
for i = 1, #ARGV, 4 do
  found[#found + 1] = resembles(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3])
end
return found
