-- schedule, zone, spec_hash, skew_tolerance_ms, keep_ms, history_ticks, history_successful, history_failed, quiet_ms,
-- and whether the replica knew the job; then: since, decided_through, missing, forgot_at, quiet_for_ms, schedule, zone,
-- former; and what is passed: from, until
local schedule, zone = ARGV[3], ARGV[4]
local knew = ARGV[12] == '1'
local fresh = not job
local tolerance = tonumber(ARGV[6]) + EARLY_TOLERANCE_MS

-- What the registration makes of the store's memory: see `doubt` in guard.rs.
local doubt = 'none'
local same = job and job.is.identity == store.server
if fresh then
  doubt = knew and 'missing' or 'none'
else
  local listed = 0
  for _ in string.gmatch(job.is.open, '%S+') do
    listed = listed + 1
  end
  local told = false
  if knew and num(job.is.since) == tonumber(ARGV[13]) then
    told = ARGV[15] == '1'
  elseif knew then
    told = num(job.is.forgot_at) == 0
  end
  if listed ~= #open or (same and tonumber(store.evicted) > num(job.is.evicted)) or told then
    doubt = 'missing'
  elseif not same then
    doubt = 'restarted'
  end
end

if fresh then
  job = new_record(KEYS[1], JOB_FIELDS)
  -- A new record may stand where a flushed or evicted one stood: what it may have forgotten is refused, not run.
  local since = now + tolerance
  set(job, 'revision', '0')
  set(job, 'since', int(since))
  set(job, 'floor', '0')
  local goes_on = knew and ARGV[18] ~= ''
  set(job, 'schedule', goes_on and ARGV[18] or schedule)
  set(job, 'zone', goes_on and ARGV[19] or zone)
  set(job, 'former', goes_on and ARGV[20] or '')
  -- A replica that knew the job knows what the store has to settle.
  local through = math.floor(since / 1000)
  set(job, 'decided_through', int(knew and math.min(through, tonumber(ARGV[14])) or through))
  set(job, 'last_begun', '0')
  set(job, 'manual_token', '0')
  for _, name in ipairs({ 'failures', 'missed', 'forgot_at', 'quiet_ms', 'evicted' }) do
    set(job, name, '0')
  end
end

-- The ticks of a former schedule stay owed, those of the new one begin now: see former.rs.
local former, ends = {}, {}
for line in string.gmatch(job.is.former, '[^\n]+') do
  former[#former + 1] = line
  ends[#ends + 1] = tonumber(string.match(line, '^%S+'))
end
local from, passed = tonumber(ARGV[21]), tonumber(ARGV[22])
for _, at in ipairs(ends) do
  if at == passed and num(job.is.decided_through) >= from then
    set(job, 'decided_through', int(math.max(num(job.is.decided_through), passed)))
  end
end
-- The newest one stays: its end is what no replica that has not heard of it may pass.
while #former > 1 and ends[1] <= num(job.is.decided_through) do
  table.remove(former, 1)
  table.remove(ends, 1)
end
local rescheduled = (job.is.schedule ~= schedule or job.is.zone ~= zone) and #former < FORMER_MOST
if rescheduled then
  local at = math.max(math.floor(now / 1000), ends[#ends] or 0)
  former[#former + 1] = int(at) .. ' ' .. string.gsub(job.is.zone .. ' ' .. job.is.schedule, '\n', ' ')
  set(job, 'schedule', schedule)
  set(job, 'zone', zone)
end
set(job, 'former', table.concat(former, '\n'))
set(job, 'spec_hash', ARGV[5])
set(job, 'registered_at', int(now))
set(job, 'keep_ms', ARGV[7])
set(job, 'history_ticks', ARGV[8])
set(job, 'history_successful', ARGV[9])
set(job, 'history_failed', ARGV[10])

local since = nil
if doubt == 'missing' or (doubt == 'restarted' and store.missing_until == '') then
  since = now + tolerance
elseif doubt == 'restarted' and store.missing_until ~= '0' then
  since = math.min(tonumber(store.missing_until), now) + tolerance
end
if since then
  set(job, 'since', int(math.max(num(job.is.since), since)))
  set(job, 'forgot_at', int(math.max(now, num(job.is.forgot_at) + 1)))
  set(job, 'quiet_ms', ARGV[11])
  local there, holds_slot = {}, false
  for i, other in ipairs(open) do
    there[i] = other.is.scheduled_for
    holds_slot = holds_slot or other.is.scheduled_for == job.is.slot
  end
  set(job, 'open', table.concat(there, ' '))
  if not holds_slot then
    set(job, 'slot', '')
  end
elseif num(job.is.quiet_ms) > 0 then
  -- The longest lease and grace of all tables counts.
  local quiet_ms = math.max(num(job.is.quiet_ms), tonumber(ARGV[11]))
  if knew and tonumber(ARGV[16]) == num(job.is.forgot_at) and tonumber(ARGV[17]) >= quiet_ms then
    quiet_ms = 0
  end
  set(job, 'quiet_ms', int(quiet_ms))
end
if knew then
  -- What was decided stays so, whether the store knows it or not.
  local known = math.min(tonumber(ARGV[14]), math.floor(num(job.is.since) / 1000))
  set(job, 'decided_through', int(math.max(num(job.is.decided_through), known)))
end
local evicted = same and num(job.is.evicted) or 0
set(job, 'evicted', int(math.max(tonumber(store.evicted), evicted)))
set(job, 'identity', store.server)
return answer('registered', fresh and '1' or '0', rescheduled and '1' or '0')
