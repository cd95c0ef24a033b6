-- owner, previous, decision (missed, skipped, cancelled, replaced, lost, drained), reason, expect (absent, own, unchanged);
-- then for absent: after_ms; for range: after_ms, first (text), first (seconds), count; for own: owner
-- for unchanged: owner, start, state, number
local owner, previous, decision, reason, expect = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]

-- Of a job that is in no table any more, which nobody will register again, the runs must end: what a watcher saw
-- unchanged may be judged.
local judges = expect == 'unchanged'
  and (decision == 'lost' or decision == 'drained' or (decision == 'missed' and reason == 'store_forgot'))
if not job or not (is_registered or judges) then
  return answer('unregistered')
end

-- Decisions that are an outcome.
local is_outcome = decision ~= 'lost' and decision ~= 'drained'

-- Whether a process of a claimed run may have run: then that it did not can no longer be said.
local function may_have_run()
  return run.is.rerun == '1' and num(run.is.start) > 0
end

local function outcome_of()
  return (decision == 'missed' or decision == 'skipped') and may_have_run() and 'lost' or decision
end

-- Whether the run ended by that replica's same decision: then this one was sent again.
local function is_settled(by)
  return run and run.is.state == 'done' and run.is.owner == by and run.is.outcome == outcome_of() and run.is.reason == reason
    and is_outcome
end

-- Whether the decision would say more of a tick than anybody can know; of a range, of its first tick.
local is_loss = decision == 'missed' and reason == 'store_forgot'
local function says_too_much(at_ms, record)
  local unsure = at_ms <= num(job.is.since) and not (record and is_asserted(record))
  return num(job.is.forgot_at) > 0 and unsure and not is_loss and is_outcome
end
-- A tick up to which all is known to be decided: somebody had it, and its record was lost.
local may_record_loss = is_loss and num(job.is.forgot_at) > 0 and tick_ms <= num(job.is.since)
  and tick_s > num(job.is.floor)

if expect == 'absent' then
  if is_settled(owner) and run.is.number == '0' then
    return answer('settled')
  elseif run or is_manual or (tick_s <= num(job.is.decided_through) and not may_record_loss) then
    if run and not is_manual then
      local before = job.is.decided_through
      advance(previous)
      job.touched = job.is.decided_through ~= before
    end
    return answer('changed')
  end
  local at = tick_ms + tonumber(ARGV[8])
  if now < at then
    return answer('too_early', int(at - now))
  elseif (decision ~= 'missed' and decision ~= 'skipped') or says_too_much(tick_ms) then
    return answer('changed')
  end
  run = untaken(owner)
  advance(previous)
elseif expect == 'range' then
  local at, first, first_s = tick_ms + tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10])
  local through = num(job.is.decided_through)
  if is_settled(owner) and run.is.number == '0' then
    return answer('settled')
  elseif is_manual or string.find(first, '+', 1, true) or previous > through or through >= first_s or first_s > tick_s
    or changed_between(previous, tick_s)
    or (decision ~= 'missed' and decision ~= 'skipped') or says_too_much(first_s * 1000) then
    return answer('changed')
  end
  -- Manual runs do not count.
  local lowest, passed = nil, 0
  repeat
    lowest = redis.call('ZRANGEBYSCORE', prefix .. 'final', first_s, tick_s, 'LIMIT', passed, 1)[1]
    passed = passed + 1
  until not lowest or not string.find(lowest, '+', 1, true)
  for _, other in ipairs(open) do
    local tick_of = other.is.scheduled_for
    if first <= tick_of and tick_of <= tick and not string.find(tick_of, '+', 1, true) and (not lowest or tick_of < lowest) then
      lowest = tick_of
    end
  end
  if lowest then
    return answer('occupied', lowest)
  elseif now < at then
    return answer('too_early', int(at - now))
  end
  run = untaken(owner)
  set(run, 'range_first', first)
  set(run, 'range_count', ARGV[11])
  advance(previous)
elseif expect == 'own' then
  if is_settled(ARGV[8]) and run.is.lost_by == '' then
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
local free = state == 'claimed' or state == 'abandoned'
local fits = (is_outcome and free) or (decision == 'lost' and state == 'begun')
  or (decision == 'drained' and (state == 'lost' or (free and num(run.is.start) > 0)))
if (expect ~= 'absent' and expect ~= 'range' and says_too_much(tick_ms, run)) or not fits then
  return answer('changed')
end

if decision == 'lost' or decision == 'drained' then
  despite_full_memory()
end
job.touched = true
set(run, 'ended_at', int(now))
local undecided = run.is.outcome == ''
if is_outcome then
  set(run, 'outcome', outcome_of())
  set(run, 'reason', reason)
  if expect == 'unchanged' and decision == 'missed' then
    set(run, 'lost_by', owner)
  end
elseif decision == 'drained' then
  set(run, 'outcome', 'lost')
else
  set(run, 'state', 'lost') -- stays open, and its slot drains
  set(run, 'lost_by', owner)
  if not may_run_again() then
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
if run.is.range_first ~= '' then
  set(job, 'range', table.concat({ run.is.range_first, tick, run.is.outcome, run.is.reason, run.is.owner }, ' '))
end
return answer('settled')
