-- Truechimer: dissector for Wireshark and tshark, laid by 'truechimer extcap --install'.
--
-- Shows what 'truechimer capture --comments' and 'truechimer restamp --comments' say of each packet's time, as fields
-- for filters and columns. They stand in a comment (opt_comment), as scripts can read no other option of a packet that
-- holds them. docs/reference/capture-files.md has the comment's form.

local BEGINNING = "Truechimer: ± "
local NANOSECONDS_MAX = "4294967294"
local WORD_MAX = "4294967295"
local COUNT_MAX = "18446744073709551615"

local function set(words)
  local all = {}
  for word in words:gmatch("%S+") do
    all[word] = true
  end
  return all
end

local QUALITIES = set("bounded unsynchronised uncounted")
local CLOCKS = set("synchronised holdover unknown disrupted none")
local METHODS = set("packet hw xdp xdp-copy restamp unknown")
local STAMPS = set("counter realtime monotonic device unknown nothing")

local truechimer = Proto("truechimer", "Truechimer")
local fields = {
  bound = ProtoField.uint32("truechimer.bound", "Bound (ns)", base.DEC, nil, nil,
    "True time is within so many ns of the packet's"),
  quality = ProtoField.string("truechimer.quality", "Quality", base.ASCII,
    "bounded, unsynchronised (the system clock's time) or uncounted (not even a raw count)"),
  status = ProtoField.string("truechimer.status", "Clock", base.ASCII,
    "Status of the clock as the packet was captured; none: no clock was there"),
  method = ProtoField.string("truechimer.method", "Method", base.ASCII, "How the packet was captured"),
  stamped = ProtoField.string("truechimer.stamped", "Stamped by", base.ASCII, "Clock that the stamp was made with"),
  count = ProtoField.uint64("truechimer.count", "Raw count", base.DEC, nil, nil,
    "Reading of the counter at which the packet was stamped"),
  count_error = ProtoField.uint32("truechimer.count_error", "Error of the count", base.DEC, nil, nil,
    "The packet was stamped within so many counts of it"),
  epoch = ProtoField.uint32("truechimer.epoch", "Epoch", base.DEC, nil, nil, "Unbroken stretch of the counter"),
}
local malformed = ProtoExpert.new("truechimer.malformed", "A comment that begins as Truechimer's, and is none",
  expert.group.MALFORMED, expert.severity.WARN)

truechimer.fields = fields
truechimer.experts = { malformed }

local comments = Field.new("frame.comment")

-- Decimal digits as text, no more than `most`; nil if it is anything else.
local function digits(text, most)
  local plain = text and text:match("^%d+$")
  if not plain or #plain > #most or (#plain == #most and plain > most) then
    return nil
  end
  return plain
end

-- Beyond 2^53, where numbers of Lua end.
local function long(text)
  local value = UInt64(0)
  for digit in text:gmatch("%d") do
    value = value * UInt64(10) + UInt64(tonumber(digit))
  end
  return value
end

local function known(words, word)
  return word and words[word] and word
end

-- Readers of 'KEY VALUE' parts: each puts values into `found`, and returns whether they make sense. Parts with another
-- key are of a later version, and passed over.
local PARTS = {
  clock = function(value, found)
    found.status = known(CLOCKS, value)
    return found.status
  end,
  method = function(value, found)
    found.method = known(METHODS, value)
    return found.method
  end,
  stamped = function(value, found)
    found.stamped = known(STAMPS, value)
    return found.stamped
  end,
  count = function(value, found)
    local count, off = value:match("^(%d+) ± (%d+)$")
    count, off = digits(count, COUNT_MAX), digits(off, NANOSECONDS_MAX)
    if not count or not off then
      return false
    end
    found.count, found.count_error = long(count), tonumber(off)
    return true
  end,
  epoch = function(value, found)
    local epoch = digits(value, WORD_MAX)
    found.epoch = epoch and tonumber(epoch)
    return epoch
  end,
}

-- Values in a comment of ours; nil if it makes no sense.
local function read(text)
  local bound, quality, rest = text:sub(#BEGINNING + 1):match("^([^,]+), (%l+)(.*)$")
  local found = { quality = known(QUALITIES, quality) }
  if not found.quality then
    return nil
  end
  if bound ~= "?" then
    local nanoseconds = digits(bound:match("^(%d+) ns$"), NANOSECONDS_MAX)
    if not nanoseconds then
      return nil
    end
    found.bound = tonumber(nanoseconds)
  end
  -- A bound of more than 4.29 s is a '?' as well.
  if found.bound and found.quality ~= "bounded" then
    return nil
  end
  local seen = {}
  while rest ~= "" do
    local key, value, behind = rest:match("^, ([%w-]+) ([^,]+)(.*)$")
    if not key or seen[key] then
      return nil
    end
    seen[key], rest = true, behind
    local part = PARTS[key]
    if part and not part(value, found) then
      return nil
    end
  end
  return found
end

local ORDER = { "bound", "quality", "status", "method", "stamped", "count", "count_error", "epoch" }

local function show(found, tvb, tree)
  local within = found.bound and ("within ± %d ns"):format(found.bound) or found.quality
  local item = tree:add(truechimer, tvb(0, 0))
  item:set_text("Truechimer: " .. within .. (found.status and ", clock " .. found.status or ""))
  item:set_generated()
  for _, name in ipairs(ORDER) do
    if found[name] ~= nil then
      item:add(fields[name], tvb(0, 0), found[name]):set_generated()
    end
  end
end

function truechimer.dissector(tvb, _, tree)
  local bad = false
  for _, comment in ipairs({ comments() }) do
    local text = comment.value
    if text:sub(1, #BEGINNING) == BEGINNING then
      local found = read(text)
      if found then
        show(found, tvb, tree)
        return
      end
      bad = true
    end
  end
  if bad then
    tree:add(truechimer, tvb(0, 0)):add_proto_expert_info(malformed)
  end
end

register_postdissector(truechimer)
