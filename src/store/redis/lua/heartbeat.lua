-- What was lost by a server that has restarted? KEYS[1]: the heartbeat; ARGV: identity, how the server keeps what it
-- acknowledges (`always`, `everysec`, or empty: not for sure), when this replica's last heartbeat was acknowledged (by
-- the server's clock, milliseconds; empty: never), how long after its last heartbeat a server can have gone on
-- acknowledging what it lost, and its clock.
--
-- The append-only file is read from its beginning, so what is lost is its end: nothing from before the last heartbeat
-- that is still there. And whoever reached the server after that heartbeat has left another one, unless it was lost with
-- the end. That holds for the file as it was: one from a backup has lost more, which a replica shows whose own heartbeats
-- are missing, and none can deny that has not been there until the end. So only a replica that was may say how little was
-- lost, and what the first one says under a new identity stands.
local server, keeps, mine, window = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local was = redis.call('HMGET', KEYS[1], 'identity', 'heard_at', 'keeps', 'missing_until')
local missing_until = was[4] or ''

if was[1] ~= server then
  missing_until = ''
  local kept = was[1] and was[3] ~= '' and keeps ~= ''
  if kept and mine ~= '' then
    local last, own = tonumber(was[2]), tonumber(mine)
    if was[3] == 'always' and own <= last and own >= last - window then
      missing_until = '0'
    elseif was[3] == 'everysec' and math.abs(own - last) <= window then
      missing_until = string.format('%.0f', last + window)
    end
  end
end
redis.call('HSET', KEYS[1], 'identity', server, 'heard_at', string.format('%.0f', now), 'keeps', keeps,
  'missing_until', missing_until)
return { string.format('%.0f', now), missing_until }
