if not is_registered then
  return answer('unregistered')
end
return answer('read')
