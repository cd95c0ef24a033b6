-- owner, previous, take, lease_ms, grace_ms, takeover_ms, exclusive, rerun, trigger, spec_hash, delay_ms,
-- stop_grace_ms, when_busy, and for a takeover what was seen: owner, start, state, number
local owner, take = ARGV[3], ARGV[5] == '1'

if not is_registered then
  return answer('unregistered')
end

local function take_it()
  set(run, 'state', 'claimed')
  set(run, 'owner', owner)
  set(run, 'number', int(num(run.is.number) + 1))
  set(run, 'lease_ms', ARGV[6])
  set(run, 'grace_ms', ARGV[7])
  set(run, 'stop_grace_ms', ARGV[14])
  set(run, 'takeover_ms', ARGV[8])
  -- What holds the slot goes on holding it, whatever the table of its new owner says.
  set(run, 'exclusive', job.is.slot == tick and '1' or ARGV[9])
  set(run, 'when_busy', ARGV[15])
  -- What was never begun may run again, or not, as the table says under which it begins.
  if num(run.is.start) == 0 then
    set(run, 'rerun', ARGV[10])
  end
  set(run, 'trigger', ARGV[11])
  set(run, 'spec_hash', ARGV[12])
  set(run, 'claimed_at', int(now))
  set(run, 'outcome', '')
  set(run, 'lost_by', '')
  job.touched = true
end

-- A record that is only told, and not saved.
local function told(fields)
  local record = new_record('', RUN_FIELDS)
  for name, value in pairs(fields) do
    record.is[name] = value
  end
  record.touched = false
  return record
end

if not run and is_manual then
  return answer('gone') -- only an order makes its record
elseif not run then
  local early_ms = tick_ms + tonumber(ARGV[13]) - now - EARLY_TOLERANCE_MS
  if early_ms > 0 then
    return answer('too_early', int(early_ms))
  elseif is_forgotten() then
    return answer('forgot')
  end
  local first, last, outcome, reason, by = string.match(job.is.range, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
  if first and first <= tick and tick <= last then
    run = told({ scheduled_for = tick, state = 'done', owner = by, outcome = outcome, reason = reason })
    return answer('done')
  elseif tick_s <= math.max(num(job.is.floor), num(job.is.decided_through)) then
    return answer('too_old')
  elseif tick_s == num(job.is.last_begun) then
    return answer('forgot') -- it has begun, and its record was evicted
  elseif is_paused() then
    return answer('paused')
  elseif not take then
    return answer('free')
  end
  run = new_record(prefix .. 'run:' .. tick, RUN_FIELDS)
  set(run, 'scheduled_for', tick)
  set(run, 'start', '0')
  set(run, 'rerun', ARGV[10])
  set(run, 'delay_ms', ARGV[13])
  for _, name in ipairs({ 'begun_at', 'renewed_at', 'waiting_since', 'ended_at', 'duration_ms', 'asserted' }) do
    set(run, name, '0')
  end
  take_it()
  advance(tonumber(ARGV[4]))
  return answer('won')
end

if run.is.state == 'done' then
  return answer('done')
elseif run.is.owner == owner and run.is.state == 'claimed' then
  return answer('won') -- sent again
end

-- An abandoned run is free. A claim that waits without a sign of life is, too. A begun one is not: it must have been
-- called lost first, and its owner must have had the time to stop it; watchers wait for that before they send this.
local seen = is_seen(run, ARGV[16], ARGV[17], ARGV[18], ARGV[19])
local may_take = run.is.state == 'abandoned'
  or (run.is.state == 'claimed' and seen)
  or (run.is.state == 'lost' and seen and may_run_again())
if not take or not may_take then
  return answer('held')
elseif is_forgotten() then
  return answer('forgot')
end
take_it()
return answer('won')
