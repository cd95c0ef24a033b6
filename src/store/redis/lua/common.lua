-- What all steps share. Every script is: the lists of field names (from Rust), this file, one step's file.
--
-- KEYS[1] is the job's record; all other keys are made from its name, so they share its hash tag `{job}`.
-- ARGV[1] is the tick as text (`2026-03-01T02:00:00Z`), ARGV[2] the same in seconds; a step's own arguments follow; the
-- last three say what the store is: its identity, keys evicted, and until when acknowledged writes may be missing.
--
-- All values are texts, as in the record. Numbers become texts by `int` alone: what tostring makes of 13 digits
-- is `1.7723304001e+12`.

local FORMAT = 1
local EARLY_TOLERANCE_MS = 250
local STARTS_MOST = 3
local DROPPED_MOST = 2
local NUMBER_LEAP = 1000
local FORMER_MOST = 5

local prefix = string.sub(KEYS[1], 1, -4) -- without `job`
local tick, tick_s = ARGV[1], tonumber(ARGV[2])
-- Of a manual run `2026-03-01T02:00:07.123Z+manual-7f3a`: no tick of the schedule.
local of_second = string.match(tick, '%.(%d%d%d)Z%+manual%-')
local is_manual = of_second ~= nil
local tick_ms = (tick_s or 0) * 1000 + (tonumber(of_second) or 0)

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local store = { server = ARGV[#ARGV - 2], evicted = ARGV[#ARGV - 1], missing_until = ARGV[#ARGV] }

local function int(number)
  return string.format('%.0f', number)
end

local function num(text)
  return tonumber(text) or 0
end

-- A record in memory: `is` holds its fields, `changed` those to be written. Fields that we do not know stay as they
-- are. Returns the record and, where it is of a newer form than we understand, the answer that says so.
local function load(key, fields)
  local values = redis.call('HMGET', key, unpack(fields))
  if not values[1] then
    return nil, nil
  end
  if num(values[1]) > FORMAT then
    return nil, { 'unreadable', values[1], '', false, false, {} }
  end
  local record = { key = key, is = {}, changed = {}, touched = false }
  for i, name in ipairs(fields) do
    record.is[name] = values[i] or ''
  end
  return record, nil
end

local function set(record, name, value)
  record.touched = true
  if record.is[name] ~= value then
    record.is[name] = value
    record.changed[name] = value
  end
end

local function new_record(key, fields)
  local record = { key = key, is = {}, changed = {}, touched = true }
  for _, name in ipairs(fields) do
    record.is[name] = ''
  end
  set(record, 'format', int(FORMAT))
  return record
end

local function save(record)
  local pairs_of = {}
  for name, value in pairs(record.changed) do
    pairs_of[#pairs_of + 1] = name
    pairs_of[#pairs_of + 1] = value
  end
  if #pairs_of > 0 then
    redis.call('HSET', record.key, unpack(pairs_of))
  end
end

-- The picture of the job before the step.
local job, run, refused
local open = {}
local oldest = {}
local history_entry, late_outcome, output_tail
local withdrawn = false

local function look()
  job, refused = load(KEYS[1], JOB_FIELDS)
  if not job then
    return
  end
  if tick ~= '' then
    run, refused = load(prefix .. 'run:' .. tick, RUN_FIELDS)
    if refused then
      return
    end
  end
  for other in string.gmatch(job.is.open, '%S+') do
    local found = run
    if other ~= tick then
      found, refused = load(prefix .. 'run:' .. other, RUN_FIELDS)
      if refused then
        return
      end
    end
    if found then
      open[#open + 1] = found
    end
  end
end

-- Keeps the job's list of open runs in step with the run that changed. Texts of ticks sort like their instants.
local function list_open()
  local list, texts = {}, {}
  -- One that is listed and has no record stays on the list, to be found missing.
  for other in string.gmatch(job.is.open, '%S+') do
    if other ~= tick then
      texts[#texts + 1] = other
    end
  end
  for _, other in ipairs(open) do
    if other.is.scheduled_for ~= tick then
      list[#list + 1] = other
    end
  end
  if run.is.state ~= 'done' then
    list[#list + 1] = run
    texts[#texts + 1] = tick
  end
  table.sort(list, function(a, b) return a.is.scheduled_for < b.is.scheduled_for end)
  table.sort(texts)
  open = list
  local text, touched = table.concat(texts, ' '), job.touched
  set(job, 'open', text)
  job.touched = touched
end

-- Old final records go, and the floor rises over them in the same script: a claim that comes later finds them decided.
-- Never above `decided_through`: what is not yet known to be decided must stay visible.
local function choose_old()
  local found = redis.call('ZRANGE', prefix .. 'final', 0, DROPPED_MOST - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local seconds = tonumber(found[i + 1])
    -- Nobody can claim a manual run whose record is gone.
    local millis = string.match(found[i], '%.(%d%d%d)Z%+manual%-')
    local is_decided = millis or seconds <= num(job.is.decided_through)
    local old = seconds * 1000 + (tonumber(millis) or 0) + num(job.is.keep_ms) <= now
    if old and is_decided and found[i] ~= tick then
      if not millis then
        set(job, 'floor', int(math.max(num(job.is.floor), seconds)))
      end
      oldest[#oldest + 1] = found[i]
    end
  end
end

local function drop_old()
  for _, old in ipairs(oldest) do
    local key = string.find(old, '+', 1, true) and redis.call('HGET', prefix .. 'run:' .. old, 'order_key')
    if key and key ~= '' then
      redis.call('HDEL', prefix .. 'orders', key)
    end
    redis.call('DEL', prefix .. 'run:' .. old)
    redis.call('ZREM', prefix .. 'final', old)
  end
end

local function is_failure(outcome)
  return outcome == 'failed' or outcome == 'timed_out' or outcome == 'interrupted' or outcome == 'lost'
    or outcome == 'not_started'
end

-- It ran, and did not end well: its output is kept among that of the failures.
local function is_unsuccessful(outcome)
  return is_failure(outcome) or outcome == 'cancelled' or outcome == 'replaced'
end

local function trim(key, most)
  if most == 0 then
    redis.call('DEL', key) -- LTRIM has no way to say "none"
  else
    redis.call('LTRIM', key, 0, most - 1)
  end
end

-- One line of JSON. Written by hand: cjson orders fields as it likes, and rounds numbers to 14 digits.
local function json_of(record, fields)
  local parts = {}
  for i, field in ipairs(fields) do
    local name, is_number = string.gsub(field, '#', '')
    local value = record[name]
    parts[i] = '"' .. name .. '":' .. (is_number == 1 and int(num(value)) or cjson.encode(value))
  end
  return '{' .. table.concat(parts, ',') .. '}'
end

local HISTORY_FIELDS = {
  'scheduled_for', 'outcome', 'reason', 'range_first', '#range_count', 'late_outcome', 'owner', '#start', '#ended_at', '#duration_ms',
  'exit_code', 'signal', 'http_status', 'error',
}

local function push_history()
  local outcome = run.is.outcome
  redis.call('LPUSH', prefix .. 'history', history_entry)
  local kind = outcome == 'succeeded' and 'succeeded' or is_unsuccessful(outcome) and 'failed'
  if kind then
    local output = { scheduled_for = tick, output_tail = output_tail }
    redis.call('LPUSH', prefix .. 'output:' .. kind, json_of(output, { 'scheduled_for', 'output_tail' }))
  end
end

-- The entry is text that `json_of` made: the words sought are unambiguous, since quotes inside of values are escaped.
local function amend_history()
  local key = prefix .. 'history'
  local head = '{"scheduled_for":' .. cjson.encode(tick) .. ','
  for i, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do
    if string.sub(entry, 1, #head) == head then
      local from, to = string.find(entry, '"late_outcome":"[a-z_]*"')
      if from then
        local late = '"late_outcome":' .. cjson.encode(late_outcome)
        redis.call('LSET', key, i - 1, string.sub(entry, 1, from - 1) .. late .. string.sub(entry, to + 1))
      end
      return
    end
  end
end

-- The entry said that nobody knows, and now somebody does.
local function withdraw_history()
  local key = prefix .. 'history'
  local head = '{"scheduled_for":' .. cjson.encode(tick) .. ','
  for _, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do
    if string.sub(entry, 1, #head) == head then
      redis.call('LREM', key, 1, entry)
    end
  end
end

local function write_history()
  if withdrawn then
    withdraw_history()
  end
  if history_entry then
    push_history()
  elseif late_outcome then
    amend_history()
  else
    return
  end
  trim(prefix .. 'history', num(job.is.history_ticks))
  trim(prefix .. 'output:succeeded', num(job.is.history_successful))
  trim(prefix .. 'output:failed', num(job.is.history_failed))
end

local function values_of(record, fields)
  if not record then
    return false
  end
  local values = {}
  for i, name in ipairs(fields) do
    values[i] = record.is[name]
  end
  return values
end

-- Writes what the step changed and makes its answer: verdict, two details of it, job, run, open runs.
-- The first write is an HSET, which a server that is out of memory refuses: then nothing was written.
local function answer(verdict, detail, other)
  if run and run.touched then
    choose_old()
    list_open()
  end
  if job and job.touched then
    set(job, 'revision', int(num(job.is.revision) + 1))
  end
  if job then
    save(job)
  end
  if run and run.touched then
    save(run)
    if run.is.state == 'done' then
      redis.call('ZADD', prefix .. 'final', tick_s, tick)
    elseif withdrawn then
      redis.call('ZREM', prefix .. 'final', tick)
    end
    drop_old()
    write_history()
  end
  local runs = {}
  for i, other_run in ipairs(open) do
    runs[i] = values_of(other_run, RUN_FIELDS)
  end
  return { verdict, detail or '', other or '', values_of(job, JOB_FIELDS), values_of(run, RUN_FIELDS), runs }
end

-- A server that is out of memory refuses a script's first write, if it is one that needs memory, and none after it.
-- Steps that end or keep alive what has begun must not fail there: the run is going, and saying so frees the job.
-- Removing a field that is never there is a write that needs none. (The flag `allow-oom` is for Redis 7 alone.)
local function despite_full_memory()
  redis.call('HDEL', KEYS[1], '-')
end

-- Whether the schedule changed after one instant and before the other (seconds). Then whoever says that no tick lies
-- between them knows only one of the schedules.
local function changed_between(previous, last)
  for line in string.gmatch(job.is.former, '[^\n]+') do
    local ends = tonumber(string.match(line, '^%S+'))
    if previous < ends and ends < last then
      return true
    end
  end
  return false
end

-- The tick has a record now: if everything before it was decided, everything up to it is.
local function advance(previous)
  if num(job.is.decided_through) >= previous and not changed_between(previous, tick_s) then
    set(job, 'decided_through', int(math.max(num(job.is.decided_through), tick_s)))
  end
end

local function count(outcome)
  if outcome == 'succeeded' then
    local told_for = string.sub(run.is.runs_for ~= '' and run.is.runs_for or tick, 1, 19) .. 'Z'
    if job.is.last_success < told_for then
      set(job, 'last_success', told_for)
    end
    set(job, 'failures', '0')
    set(job, 'missed', '0')
  elseif is_failure(outcome) then
    set(job, 'failures', int(num(job.is.failures) + 1))
  elseif outcome == 'missed' then
    set(job, 'missed', int(num(job.is.missed) + math.max(1, num(run.is.range_count))))
  end
end

local function close()
  set(run, 'state', 'done')
  if job.is.slot == tick then
    set(job, 'slot', '')
  end
end

local function decided(tail)
  history_entry = json_of(run.is, HISTORY_FIELDS)
  output_tail = tail
end

local function is_seen(record, owner, start, state, number)
  return record ~= nil and record.is.owner == owner and record.is.start == start and record.is.state == state
    and record.is.number == number
end

-- One whose stop was asked for is not started again.
local function may_run_again()
  return run.is.rerun == '1' and num(run.is.start) < STARTS_MOST and run.is.stop_asked == ''
end

-- It has the slot, or it began (and may begin again) under a definition that allowed overlaps.
local function is_in_the_way(other)
  local state = other.is.state
  local is_going = state == 'begun' or state == 'lost'
  local may_begin_again = other.is.exclusive ~= '1' and state == 'claimed' and num(other.is.start) > 0
  return other.is.scheduled_for ~= tick and (other.is.scheduled_for == job.is.slot or is_going or may_begin_again)
end

local function is_paused()
  return job.is.paused ~= '' or job.is.all_paused ~= ''
end

local function is_waiting(other)
  return num(other.is.waiting_since) > 0 and (other.is.state == 'claimed' or other.is.state == 'abandoned')
end

-- What keeps the run from beginning, if anything: a verdict and its details. A run that may wait is noted as waiting.
local function refuses()
  if run.is.stop_asked ~= '' then
    return 'stop_asked'
  end
  local exclusive, slot = run.is.exclusive == '1', job.is.slot
  local kept = num(run.is.start) > 0 and (not exclusive or slot == tick)
  if kept then
    return nil
  end
  -- One that has begun before goes on, also where the pause came in between.
  if is_paused() and num(run.is.start) == 0 and run.is.despite_pause ~= '1' then
    return 'paused'
  end
  -- A later tick that waits to replace what is going wins. Texts of ticks sort like their instants.
  -- A manual run begins above all that began before it: above a tick that began, was given back and begins again.
  local token = math.max(tick_s, 0) * 1048576 + num(run.is.start) + 1
  local overtaken = num(job.is.last_begun) > tick_s or num(job.is.manual_token) > token
  for _, other in ipairs(open) do
    if exclusive and other.is.scheduled_for > tick and other.is.when_busy == 'replace' and is_waiting(other)
      and other.is.stop_asked == '' and not string.find(other.is.scheduled_for, '+', 1, true) then
      overtaken = true
    end
  end
  if overtaken and not is_manual then
    return 'superseded'
  elseif not exclusive then
    return nil
  end
  local occupant = slot ~= '' and slot ~= tick and slot or nil
  local is_first, first_in_line = true, nil
  for _, other in ipairs(open) do
    if not occupant and is_in_the_way(other) then
      occupant = other.is.scheduled_for
    end
    if other.is.scheduled_for ~= tick and is_waiting(other) then
      is_first = false
      -- The slot is its, as soon as it asks: a tick that comes in that moment must not begin before it.
      if not first_in_line and run.is.when_busy ~= 'replace' and other.is.scheduled_for < tick
        and other.is.exclusive == '1' and other.is.when_busy == 'queue' and other.is.stop_asked == '' then
        first_in_line = other.is.scheduled_for
      end
    end
  end
  occupant = occupant or first_in_line
  if not occupant then
    -- A run that held the slot and was lost with it may be going.
    return num(job.is.quiet_ms) > 0 and 'quiet' or nil
  end
  local renewed = '0'
  for _, other in ipairs(open) do
    if other.is.scheduled_for == occupant and num(other.is.renewed_at) >= tick_ms + num(run.is.delay_ms) then
      renewed = '1'
    end
  end
  local when_busy = run.is.when_busy
  if num(run.is.waiting_since) == 0 and (when_busy == 'replace' or (when_busy == 'queue' and is_first)) then
    set(run, 'waiting_since', int(now))
  end
  return 'busy', occupant, renewed
end

-- A record of a run that nobody has.
local function untaken(owner)
  local record = new_record(prefix .. 'run:' .. tick, RUN_FIELDS)
  set(record, 'scheduled_for', tick)
  set(record, 'state', 'claimed')
  set(record, 'owner', owner)
  set(record, 'exclusive', '0')
  set(record, 'rerun', '0')
  set(record, 'when_busy', 'skip')
  for _, name in ipairs({
    'start', 'number', 'lease_ms', 'grace_ms', 'stop_grace_ms', 'takeover_ms', 'waiting_since', 'claimed_at', 'begun_at',
    'renewed_at', 'duration_ms', 'asserted',
  }) do
    set(record, name, '0')
  end
  return record
end

local function is_at(owner, start)
  return run.is.owner == owner and run.is.start == start
end

look()
if refused then
  return refused
end

-- Whether the job was registered since the store became what it is. The steps of a replica that does not yet know that
-- the store restarted must not be judged by what is left in it.
local is_registered = job ~= nil and job.is.identity == store.server

-- Whether somebody may have had the tick without the store knowing, and the run's owner has not confirmed it since.
local function is_asserted(record)
  return num(record.is.asserted) ~= 0 and num(record.is.asserted) == num(job.is.forgot_at)
end

local function is_forgotten()
  return tick_ms <= num(job.is.since) and not (run and is_asserted(run))
end
