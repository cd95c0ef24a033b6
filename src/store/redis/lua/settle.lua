-- owner, previous, decision (missed, skipped, lost, drained), reason, expect (absent, own, unchanged);
-- then for absent: after_ms; for own: owner; for unchanged: owner, start, state, number
local owner, previous, decision, reason, expect = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]

if not is_registered then
  return answer('unregistered')
end

-- Whether the run ended by that replica's same decision: then this one was sent again.
local function is_settled(by)
  return run and run.is.state == 'done' and run.is.owner == by and run.is.outcome == decision and run.is.reason == reason
    and (decision == 'missed' or decision == 'skipped')
end

-- Whether the decision would say more of a tick than anybody can know.
local is_loss = decision == 'missed' and reason == 'store_forgot'
local says_too_much = num(job.is.forgot_at) > 0 and is_forgotten() and not is_loss
  and (decision == 'missed' or decision == 'skipped')
-- A tick up to which all is known to be decided: somebody had it, and its record was lost.
local may_record_loss = is_loss and num(job.is.forgot_at) > 0 and tick_ms <= num(job.is.since)
  and tick_s > num(job.is.floor)

if expect == 'absent' then
  if is_settled(owner) and run.is.number == '0' then
    return answer('settled')
  elseif run or (tick_s <= num(job.is.decided_through) and not may_record_loss) then
    if run then
      local before = job.is.decided_through
      advance(previous)
      job.touched = job.is.decided_through ~= before
    end
    return answer('changed')
  end
  local at = tick_ms + tonumber(ARGV[8])
  if now < at then
    return answer('too_early', int(at - now))
  elseif (decision ~= 'missed' and decision ~= 'skipped') or says_too_much then
    return answer('changed')
  end
  run = new_record(prefix .. 'run:' .. tick, RUN_FIELDS)
  set(run, 'scheduled_for', tick)
  set(run, 'state', 'claimed')
  set(run, 'owner', owner)
  set(run, 'exclusive', '0')
  set(run, 'rerun', '0')
  for _, name in ipairs({
    'start', 'number', 'lease_ms', 'grace_ms', 'takeover_ms', 'claimed_at', 'begun_at', 'renewed_at', 'duration_ms',
    'asserted',
  }) do
    set(run, name, '0')
  end
  advance(previous)
elseif expect == 'own' then
  if is_settled(ARGV[8]) then
    return answer('settled')
  elseif not run or run.is.state ~= 'claimed' or run.is.owner ~= ARGV[8] then
    return answer('changed')
  end
elseif decision == 'lost' and ARGV[10] == 'begun' and run and run.is.lost_by == owner
  and is_seen(run, ARGV[8], ARGV[9], 'lost', ARGV[11]) then
  return answer('settled') -- sent again
elseif decision == 'missed' and is_settled(ARGV[8]) and run.is.lost_by == owner
  and is_seen(run, ARGV[8], ARGV[9], 'done', ARGV[11]) then
  return answer('settled') -- sent again
elseif not is_seen(run, ARGV[8], ARGV[9], ARGV[10], ARGV[11]) then
  return answer('changed')
end

local state = run.is.state
local fits = (decision == 'lost' and state == 'begun') or (decision == 'drained' and state == 'lost')
  or ((decision == 'missed' or decision == 'skipped') and state == 'claimed')
  or (is_loss and state == 'abandoned')
if says_too_much or not fits then
  return answer('changed')
end

if decision == 'lost' or decision == 'drained' then
  despite_full_memory()
end
job.touched = true
set(run, 'ended_at', int(now))
local undecided = run.is.outcome == ''
if decision == 'missed' or decision == 'skipped' then
  set(run, 'outcome', decision)
  set(run, 'reason', reason)
  if expect == 'unchanged' and decision == 'missed' then
    set(run, 'lost_by', owner)
  end
elseif decision == 'drained' then
  set(run, 'outcome', 'lost')
else
  set(run, 'state', 'lost') -- stays open, and its slot drains
  set(run, 'lost_by', owner)
  if run.is.rerun ~= '1' or num(run.is.start) >= STARTS_MOST then
    set(run, 'outcome', 'lost')
  end
end
if undecided and run.is.outcome ~= '' then
  count(run.is.outcome)
  decided('')
end
if decision ~= 'lost' then
  close()
end
return answer('settled')
