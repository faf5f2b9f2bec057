-- some/seen.lua: where the fingerprints of a job's seen URLs stand; before the operations that deal with them.

-- Seen URLs by linear hashing: bucket counts grow one by one, so that no bucket leaves the intset encoding (512
-- integers). Lua's numbers cannot hold 64 bits: the last nine decimal digits, evenly spread, choose the bucket.
local PER_BUCKET = 190
local function spread(fingerprint) return tonumber(string.sub(fingerprint, -9)) end
local function bucket_of(fingerprint, base, split)
  local h = spread(fingerprint)
  local bucket = h % base
  if bucket < split then bucket = h % (base * 2) end
  return bucket
end

-- (base, split) for this many fingerprints.
local function buckets_for(n)
  local buckets, base = max(1, ceil(n / PER_BUCKET)), 1
  while base * 2 <= buckets do base = base * 2 end
  return base, buckets - base
end
