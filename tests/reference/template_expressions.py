"""Small templates for tests/reference/templates.json, one construct each. CONTEXT has the variables of all of them."""

CONTEXT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi <b>you</b> & me"},
        {"role": "assistant", "content": None, "tool_calls": [{"name": "f", "arguments": {"x": 1}}]},
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image"}]},
    ],
    "name": "Ada",
    "text": "  Grüße, 世界! 😀\n\tend  ",
    "words": "the quick  brown\tfox",
    "numbers": [3, 1, 2, 10, -4],
    "mixed": [1, 2.5, "three", None, True, [4], {"five": 5}],
    "empty": "",
    "nothing": None,
    "yes": True,
    "no": False,
    "n": 7,
    "pi": 3.14159,
    "big": 9007199254740993,
    "nested": {"a": {"b": [10, 20, {"c": "deep"}]}, "items": "shadowed", "key with space": 1},
    "users": [
        {"name": "bob", "age": 30, "tags": ["x"]},
        {"name": "Alice", "age": 25, "admin": True, "tags": []},
        {"name": "carol", "age": 30, "tags": ["y", "z"]},
    ],
    "unsorted": {"b": 2, "a": 3, "C": 1},
}

# Arithmetic, comparisons, logic, literals.
OPERATORS = [
    "{{ 1 + 2 * 3 - 4 }}", "{{ 7 / 2 }} {{ 8 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }}",
    "{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 1e3 }} {{ 2.5e-7 }} {{ 1e16 }} {{ 123456789012345.6 }}",
    "{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2.0 ** 3 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}",
    "{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1] }}", "{{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'x' * -1 }}|{{ [1, 2] * 2 }} {{ (1,) * 2 }}",
    "{{ [1] + [2, 3] }} {{ (1,) + (2,) }}", "{{ 'a' 'b' \"c\" }}", "{{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ none == false }}",
    "{{ [1, 2] == [1, 2.0] }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}",
    "{{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ 'é' > 'z' }} {{ [1, 2] < [1, 3] }} {{ (1, 2) <= (1, 2) }} {{ 'ab' >= 'abc' }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 == 2 }}", "{{ 1 in [1, 2] }} {{ 'a' in 'cat' }} {{ 'b' not in 'cat' }} {{ 'a' in {'a': 1} }} {{ '' in 'x' }} {{ 2 in (1, 3) }}",
    "{{ not true }} {{ not '' }} {{ not 0 and 1 }}", "{{ 0 or 'x' }} {{ 'a' and 'b' }} {{ '' or none }} {{ 1 and 0 or 5 }}",
    "{{ 'yes' if yes else 'no' }} {{ 'yes' if no else 'no' }} [{{ 'shown' if no }}]", "{{ 1 if no else 2 if no else 3 }}",
    "{{ true }} {{ True }} {{ false }} {{ False }} {{ none }} {{ None }}", "{{ true + true }} {{ true * 3 }} {{ -true }} {{ +true }}",
    "{{ [] }} {{ [1, 'a', none, true, 1.0] }} {{ {} }} {{ {'a': [1, {'b': none}]} }} {{ () }} {{ (1,) }} {{ (1, 2) }} {{ 1, 2 }}",
    "{{ ['it\\'s', 'say \"hi\"', 'it\\'s \"x\"', 'new\\nline', 'tab\\t', 'back\\\\slash', 'é世😀', '\\x07\\x7f\\u200b'] }}",
    "{{ 'esc: \\n|\\t|\\\\|\\'|\\\"|\\x41|\\u00e9|\\101|\\q' }}", "{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_0.5_0 }}",
    "{{ 1.0 }} {{ 0.1 }} {{ 1e-5 }} {{ 0.0001 }} {{ 100000.0 }} {{ 1e15 }} {{ 1.5e300 }} {{ 5e-324 }} {{ -0.0 }} {{ pi }}",
    "{{ big }} {{ big + 1 }} {{ big == 9007199254740992.0 }} {{ 9223372036854775807 }}", "{{ -5 | abs }} {{ - 5 }} {{ (-5) | abs }}",
    "{{ '%s is %d and %.2f, %5d|%-5d|%05d %x %%' % ('x', 3, 2.5, 42, 42, 42, 255) }}", "{{ '%s' % 'one' }} {{ '%(a)s-%(b)03d' % {'a': 1, 'b': 2} }} {{ '%r' % 'q' }}",
    "{{ 10 - 2 - 3 }} {{ 100 / 10 / 2 }} {{ 2 * 3 % 4 }} {{ (1 + 2) * 3 }} {{ 1 ~ (2 + 3) }}", "{{ '1' + 2 ~ 3 * 4 }}",
]

# Reading values: attributes, subscripts, slices, undefined.
ACCESS = [
    "{{ nested.a.b[2].c }} {{ nested['a']['b'][-1]['c'] }} {{ nested['key with space'] }} {{ nested.a.b.0 }}",
    "{{ nested['items'] }} {{ nested.a.items() | list }}", "{{ numbers[0] }} {{ numbers[-1] }} [{{ numbers[99] }}] [{{ nested.zzz }}]",
    "{{ numbers[1:3] }} {{ numbers[:2] }} {{ numbers[-2:] }} {{ numbers[::2] }} {{ numbers[::-1] }} {{ numbers[10:] }} {{ numbers[3:0:-2] }}",
    "{{ name[0] }} {{ name[-1] }} {{ name[1:] }} {{ name[::-1] }} [{{ name[9] }}]", "{{ text[2:8] }}|{{ text[11] }}|{{ text[-5:] }}|{{ text[::-1][:4] }}",
    "{{ messages[0]['role'] }} {{ messages[0].role }} {{ messages[1:][0].role }} {{ messages | length }}", "[{{ undefined_thing }}] [{{ undefined_thing | default('d') }}] [{{ nothing | default('d') }}] [{{ nothing | default('d', true) }}] [{{ empty | d('e', boolean=true) }}]",
    "{{ undefined_thing is defined }} {{ undefined_thing is undefined }} {{ name is defined }} {{ nothing is none }} {{ nested.zzz is defined }}",
    "[{% for x in undefined_thing %}{{ x }}{% else %}none{% endfor %}] {{ undefined_thing | length }} {{ undefined_thing | list }} {{ undefined_thing | join(',') }}",
    "{{ undefined_thing == other_undefined }} {{ undefined_thing == '' }} {{ not undefined_thing }} {{ 'a' ~ undefined_thing ~ 'b' }}",
    "{{ (1, 2, 3)[1:] }} {{ 'abc'[1:2] }} {{ [1, 2, 3][-5:2] }} {{ [1,2,3][5:1:-1] }}", "{{ [undefined_thing] }} {{ users[0].missing is undefined }}",
    "{{ {1: 'a', 'b': 2, none: 3, true: 4}[1] }} {{ {1: 'a', 2.0: 'b'}[2] }} {{ {(1, 2): 'x'}[(1, 2)] }} {{ {'a': 1, 'a': 2} }}", "{{ messages[2].content is none }} {{ messages[3].content is string }} {{ messages[3].content is iterable }}",
    "{{ 'a.b' in nested }} {{ nested.get('a') is mapping }} {{ nested.get('q') }} {{ nested.get('q', 5) }}", "{{ range(5) }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ range(3)[1] }} {{ range(0) | length }} {{ range(0, 9, 3) }}",
]

ACCESS += [
    "{{ unsorted[[1]] is undefined }} {{ unsorted[unsorted] is undefined }} [{{ n[0] }}] [{{ numbers['x'] }}] [{{ name.zzz }}]",
    "{{ numbers[true] }} {{ numbers[1.0] is undefined }} {{ nested[none] is undefined }} {{ (1, 2)[5] is undefined }} {{ name['upper']() }} {{ nested['get']('a') is mapping }}",
]

# Filters.
FILTERS = [
    "{{ text | trim }}|{{ 'xxaxx' | trim('x') }}|{{ text | length }}|{{ words | wordcount }}", "{{ 'aBc dE' | upper }} {{ 'aBc dE' | lower }} {{ 'aBc dE' | capitalize }} {{ 'aBc de-fg (hi' | title }}",
    "{{ 'straße ÉCOLE' | upper }} {{ 'ÀÉÎ' | lower }} {{ 'élan' | capitalize }}", "{{ 'aaa' | replace('a', 'b') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'abc' | replace('', '-') }} {{ 5 | replace(5, 6) }}",
    "{{ numbers | join(', ') }} {{ numbers | join }} {{ users | join(',', attribute='name') }} {{ 'abc' | join('-') }} {{ mixed | join('|') }}",
    "{{ numbers | first }} {{ numbers | last }} {{ 'abc' | first }} {{ 'abc' | last }} [{{ [] | first }}] {{ nested.a | first }}", "{{ numbers | sort }} {{ numbers | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }}",
    "{{ users | sort(attribute='age') | map(attribute='name') | list }} {{ users | sort(attribute='age,name') | map(attribute='name') | join(' ') }} {{ users | sort(true, attribute='age') | map(attribute='name') | list }}",
    "{{ unsorted | dictsort }} {{ unsorted | dictsort(true) }} {{ unsorted | dictsort(by='value') }} {{ unsorted | dictsort(reverse=true) }}", "{{ numbers | reverse | list }} {{ 'abc😀' | reverse }} {{ (1, 2) | reverse | list }}",
    "{{ ['a', 'A', 'b', 'a'] | unique | list }} {{ ['a', 'A'] | unique(true) | list }} {{ [1, 1.0, true, 2, none] | unique | list }} {{ users | unique(attribute='age') | map(attribute='name') | list }}",
    "{{ numbers | sum }} {{ users | sum(attribute='age') }} {{ [1.5, 2] | sum(start=10) }} {{ [[1], [2]] | sum(start=[]) }}", "{{ numbers | min }} {{ numbers | max }} {{ ['b', 'A'] | min }} {{ users | max(attribute='age') }} [{{ [] | min }}]",
    "{{ users | selectattr('admin') | map(attribute='name') | list }} {{ users | rejectattr('admin') | map(attribute='name') | list }} {{ users | selectattr('age', 'equalto', 30) | list | length }} {{ users | selectattr('admin', 'defined') | list | length }}",
    "{{ numbers | select('odd') | list }} {{ numbers | reject('gt', 2) | list }} {{ mixed | select('string') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ numbers | select('in', [1, 2]) | list }}",
    "{{ ['a', 'b'] | map('upper') | list }} {{ [' a '] | map('trim') | first }} {{ ['1', '2'] | map('int') | sum }} {{ users | map(attribute='admin', default='no') | list }} {{ ['a-b'] | map('replace', '-', '+') | list }}",
    "{{ users | map(attribute='tags') | map('length') | list }} {{ users | map(attribute='tags.0') | list }} {{ [[1, 2], [3, 4]] | map(attribute=1) | list }}", "{{ '42' | int }} {{ '4.9' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ '0x1f' | int(base=16) }} {{ 3.99 | int }} {{ ' 12 ' | int }} {{ none | int }} {{ '-3' | int }} {{ true | int }} {{ '1_0' | int }}",
    "{{ '2.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ '1e3' | float }} {{ 'inf' | float }} {{ 'x' | float(1.5) }}", "{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42.55 | round(1, 'floor') }} {{ 42.01 | round(method='ceil') }} {{ 42 | round }} {{ -2.5 | round }} {{ 1234.5 | round(-2) }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb' | indent('> ') }}|{{ 'a\n' | indent }}|", "{{ numbers | string }} {{ 1.5 | string ~ 'x' }} {{ none | string }} {{ 'a' | list }} {{ nested.a | list }}",
    "{{ '<a href=\"x\">&\\'' | e }} {{ '<b>' | escape | escape }} {{ '<b>' | safe }} {{ 5 | e }}", "{{ ('<i>' | safe) + '<b>' }} {{ '<b>' + ('<i>' | e) }} {{ ('<i>' | safe) ~ '<b>' }} {{ ('<' | safe).replace('<', '>') }} {{ ('a' | safe) is escaped }}",
    "{{ nested | tojson }} {{ mixed | tojson }} {{ text | tojson }} {{ '</script>&\\'' | tojson }} {{ 1.0 | tojson }} {{ 1e22 | tojson }} {{ (1, 2) | tojson }}",
    "{{ nested | tojson(indent=2) }}", "{{ users | tojson(indent=4) }}", "{{ {'a': [], 'b': {}, 'c': [[]]} | tojson(indent=1) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }} {{ {'a': [1, 2]} | tojson(separators=(',', ':')) }} {{ [1] | tojson(indent='\t') }} {{ 'é😀\x7f' | tojson(ensure_ascii=true) }}",
    "{{ {1: 'a', none: 'b', true: 'c', 1.5: 'd'} | tojson }} {{ '\\x00\\x1f\\b\\f\\u2028' | tojson }}", "{% for k, v in unsorted | items %}{{ k }}={{ v }};{% endfor %}{{ undefined_thing | items | list }}", "{{ '%s-%s' | format(1, 'b') }} {{ '%(x)s' | format(x=3) }} {{ 'ab' | center(7) }}|{{ 'abc' | center(6) }}|",
    "{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }}", "{{ numbers | count }} {{ nested | length }} {{ numbers | map('string') | join('') | length }}", "{{ text | trim | length }} {{ text | upper | trim }} {{ text | list | length }}", "{{ users | map(attribute='name') | map('lower') | sort | join(',') }}",
]

FILTERS += [
    "{{ users | groupby('age') | list }}", "{% for g in users | groupby('age') %}{{ g.grouper }}:{{ g.list | map(attribute='name') | join(',') }} {{ g[0] }} {{ g['list'] | length }};{% endfor %}", "{% for age, group in users | groupby('age') %}{{ age }}={{ group | length }} {% endfor %}{{ [] | groupby('age') }}",
    "{{ [{'c': 'b'}, {'c': 'A'}, {'c': 'B'}, {'d': 1}] | groupby('c', default='a') | map(attribute='grouper') | list }} {{ [{'c': 'b'}, {'c': 'A'}, {'c': 'B'}] | groupby('c', case_sensitive=true) }} {{ [[1, 2], [3, 2]] | groupby(1) }} {{ [3, 1, 3] | groupby(none) }} {{ users | groupby('tags.0', default='-') | map('first') | list }}",
    "{{ [3, 1, 2, 1] | groupby(none) | map(attribute='list') | map('length') | list }} {{ (users | groupby('age') | first) == (25, [users[1]]) }} {{ users | groupby('age') | map('last') | map('length') | sum }} {{ ([3, 1] | groupby(none))[0] + (2,) }} {{ ([3] | groupby(none))[0].count(3) }} {{ [1] | groupby(none) | tojson }}",
    "{{ nested | attr('a') is defined }} {{ nested | attr('get') is defined }} {{ (nested | attr('get'))('key with space') }} {{ name | attr('upper') is callable }} [{{ name | attr('zzz') }}] {{ namespace(q=4) | attr('q') }} {{ unsorted | attr('pop') is defined }} {{ (unsorted | attr('keys'))() | list }}",
    "{% for x in [1, 2] %}{{ loop | attr('index') }}{% endfor %} {{ users | map('attr', 'name') | select('defined') | list }} {{ (users | groupby('age') | first) | attr('grouper') }}",
    "{{ range(10) | slice(3) | list }} {{ range(10) | slice(3, 'x') | list }} {{ range(4) | slice(2, 'x') | list }} {{ [1] | slice(3) | list }} {{ [] | slice(2) | list }} {{ 'abcd' | slice(slices=3, fill_with='-') | list }} {{ [1, 2] | slice(-2) | list }}",
    "{{ 'foo bar baz qux' | truncate(9) }}|{{ 'foo bar baz qux' | truncate(9, true) }}|{{ 'foo bar baz qux' | truncate(11) }}|{{ 'foo bar baz qux' | truncate(11, false, '...', 0) }}|{{ 'Grüße, 世界! 😀 und mehr' | truncate(8, true, '…', 0) }}|{{ 'abcdefghij' | truncate(5, end='', leeway=0) }}|{{ ' abcdefghij' | truncate(5, leeway=0) }}|{{ text | truncate }}|[{{ undefined_thing | truncate(3) }}]|{{ ('<b>' * 9) | safe | truncate(9, true, '<', 0) }}|{{ ('<b>' * 9) | truncate(9, true, '<' | safe, 0) }}",
    "{{ 'a b/c?d=é&~_.-x' | urlencode }} {{ {'a b': 1, 'c/d': 'é f'} | urlencode }} {{ [('x', 'y z'), ['n', none]] | urlencode }} {{ 5 | urlencode }} {{ none | urlencode }} [{{ undefined_thing | urlencode }}] {{ ['ab'] | urlencode }} {{ {} | urlencode }}",
    "{{ 'The quick brown fox jumps over the lazy dog' | wordwrap(10) }}|{{ 'Look, goof-ball -- use the -b option!' | wordwrap(8) }}|{{ 'e-mail a-b-c--d x--y ---z' | wordwrap(4) }}|{{ 'e-mail well-known' | wordwrap(5, break_on_hyphens=false) }}",
    "{{ 'abcdefghijklm nop' | wordwrap(5) }}|{{ 'abcdefghijklm nop' | wordwrap(5, false) }}|{{ 'ab abcdefghijklm' | wordwrap(5, false) }}|{{ 'abc defghij' | wordwrap(4) }}|{{ 'ab-cdefghijk-lm' | wordwrap(6) }}|{{ '--------x' | wordwrap(3) }}|{{ 'supercalifragilistic-expialidocious-word' | wordwrap(12) }}",
    "{{ 'one two\\n\\nthree   four  five' | wordwrap(9, wrapstring='<br>') }}|{{ '   lead and trail   ' | wordwrap(6) }}|{{ '      ' | wordwrap(3) }}|{{ '' | wordwrap(3) }}|{{ 'Größe größer 世界世界世界 é-é' | wordwrap(5) }}|{{ 'a\\xa0b c\\td' | wordwrap(2) }}|{{ words | wordwrap(79) }}",
    "{{ 1 | filesizeformat }} {{ 0 | filesizeformat }} {{ 999 | filesizeformat }} {{ 1000 | filesizeformat }} {{ 1024 | filesizeformat(true) }} {{ '1234567' | filesizeformat }} {{ 1e15 | filesizeformat }} {{ 123456789 | filesizeformat(binary=true) }} {{ -5.5 | filesizeformat }} {{ 1e30 | filesizeformat }} {{ 1e30 | filesizeformat(true) }} {{ 999999 | filesizeformat }} {{ -0.5 | filesizeformat }}",
    "<i{{ {'a': 1, 'b': none, 'c': '<\"&\\'>', 'd&': true, 'e': undefined_thing, 'f': '<b>' | safe, 'g': [1, 'x'], 'ü-': 2.5, '': ''} | xmlattr }}>|{{ {'a': 'x', 'b': 'y'} | xmlattr(false) }}|{{ {'a': none} | xmlattr }}|{{ {} | xmlattr(autospace=true) }}|{{ {'a': none, 'b': 1} | xmlattr(false) }}",
    "{{ '<b>' | forceescape }} {{ '<b>' | escape | forceescape }} {{ 5 | forceescape }} {{ '&' | forceescape | escape }}",
]

# Tests.
TESTS = [
    "{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ '1' is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ true is boolean }} {{ 1 is boolean }}",
    "{{ 'a' is string }} {{ [] is sequence }} {{ {} is sequence }} {{ 'a' is sequence }} {{ 1 is sequence }} {{ {} is mapping }} {{ [] is mapping }} {{ 1 is iterable }} {{ 'a' is iterable }} {{ (1,) is sequence }}",
    "{{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }}", "{{ true is true }} {{ 1 is true }} {{ false is false }} {{ none is none }} {{ none is not none }} {{ 0 is false }}",
    "{{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is ne 2 }} {{ 2 is gt 1 }} {{ 2 is lt 1 }} {{ 2 is ge 2 }} {{ 1 is le 0 }} {{ 1 is greaterthan 0 }} {{ 1 is sameas 1 }}", "{{ 1 is in [1] }} {{ 'a' is in 'abc' }} {{ 'x' is not in 'abc' }}", "{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'aB' is lower }} {{ '1' is lower }}",
    "{{ range is callable }} {{ name is callable }} {{ name.upper is callable }} {{ namespace is defined }} {{ raise_exception is defined }} {{ strftime_now is defined }}", "{{ 'trim' is filter }} {{ 'odd' is test }} {{ 'nope' is filter }}", "{{ not name is none and yes is true }} {{ name is defined and name is not none and name | length > 2 }}",
    "{{ range(3) is sequence }} {{ {}.items() is sequence }} {{ {}.items() is iterable }} {{ undefined_thing is iterable }} {{ undefined_thing is sequence }}",
]

# Methods.
METHODS = [
    "{{ '  a b '.strip() }}|{{ '  a'.lstrip() }}|{{ 'a  '.rstrip() }}|{{ 'xyax'.strip('xy') }}|{{ 'ééaé'.strip('é') }}|{{ '\n a'.lstrip('\n') }}", "{{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ words.split() }} {{ words.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ ' a  b '.split(maxsplit=1) }}",
    "{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b  c '.rsplit(maxsplit=1) }} {{ 'aaa'.rsplit('aa') }} {{ 'aaa'.split('aa') }} {{ 'x</think>y</think>z'.split('</think>')[-1] }}", "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.startswith('') }} {{ 'abc'.endswith('b') }}",
    "{{ 'aBc'.upper() }} {{ 'aBc'.lower() }} {{ 'hello wOrld it\\'s'.title() }} {{ 'hELLO'.capitalize() }}", "{{ 'aXbX'.replace('X', '-') }} {{ 'aXbX'.replace('X', '-', 1) }} {{ 'hello'.find('l') }} {{ 'hello'.find('z') }} {{ 'é世l'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.index('e') }} {{ 'banana'.count('an') }}",
    "{{ ', '.join(['a', 'b']) }} {{ ''.join([]) }} {{ '-'.join('abc') }}", "{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'x'.removesuffix('y') }}", "{{ 'a\nb\r\nc'.splitlines() }} {{ 'a=b=c'.partition('=') }} {{ 'abc'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.rpartition('=') }}",
    "{{ '123'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'abé'.isalpha() }} {{ ' \t'.isspace() }} {{ ''.isdigit() }} {{ 'ab'.islower() }} {{ 'AB'.isupper() }}", "{{ '{} and {}'.format(1, 'b') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x}{{}}'.format(x=[1]) }}", "{{ 'ab'.ljust(4) }}|{{ 'ab'.rjust(4, '.') }}|{{ '-5'.zfill(4) }}",
    "{{ nested.a.keys() | list }} {{ unsorted.values() | list }} {{ unsorted.items() }} {{ unsorted.keys() }} {{ unsorted.values() }} {{ unsorted.items() | length }}", "{% for k, v in unsorted.items() %}{{ loop.index }}:{{ k }}={{ v }} {% endfor %}", "{{ [1, 2, 1].index(2) }} {{ [1, 2, 1].count(1) }} {{ (1, 2).index(2) }} {{ unsorted.copy() }}", "{{ 'pop' in unsorted }} {{ [1].append is defined }} {{ unsorted.update is defined }}",
]

# Statements.
STATEMENTS = [
    "{% if no %}a{% elif yes %}b{% else %}c{% endif %}", "{% if '' %}a{% elif none %}b{% else %}c{% endif %}{% if [] or {} or 0.0 %}x{% endif %}", "{% for x in numbers %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in numbers %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }} {% endfor %}", "{% for x in 'abc' %}[{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}]{% endfor %}", "{% for x in [] %}a{% else %}empty{% endfor %}", "{% for x in numbers if x > 1 %}{{ loop.index }}={{ x }}({{ loop.length }}) {% endfor %}",
    "{% for x in numbers if x > 100 %}a{% else %}none{% endfor %}", "{% for x in numbers %}{% if x == 2 %}{% break %}{% endif %}{% if x == 1 %}{% continue %}{% endif %}{{ x }} {% endfor %}", "{% for k, v in [(1, 2), [3, 4], 'ab'] %}{{ k }}-{{ v }} {% endfor %}", "{% for (a, (b, c)) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for k in unsorted %}{{ k }}{% endfor %} {% for c in 'é世' %}<{{ c }}>{% endfor %}", "{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }};{% endfor %}", "{% for x in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{% endfor %} {% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "{% set ns = namespace(x=1, y='a') %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }} {{ ns.y }} [{{ ns.z }}]", "{% set ns = namespace() %}{% set ns.list = [] %}{% for i in [1, 2] %}{% set ns.list = ns.list + [i] %}{% endfor %}{{ ns.list }}",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns['b'] }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set (c, d) = [3, 4] %}{{ c }}{{ d }}", "{% set t %}  block {{ name }}\n{% endset %}[{{ t }}] {{ t | trim }}", "{% set t | upper | trim %} x {% endset %}[{{ t }}]", "{% if yes %}{% set q = 5 %}{% endif %}{{ q }}",
    "{% for i in [1] %}{% set inner = 1 %}{% endfor %}[{{ inner }}]", "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c=9) }} {{ m(b=5, a=4) }} [{{ m() }}]", "{% macro m(a) %}<{{ a }}>{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}",
    "{% macro fact(k) %}{{ 1 if k < 2 else k * (fact(k - 1) | int) }}{% endmacro %}{{ fact(10) }}", "{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}", "{% macro m() %}{{ caller() }}!{% endmacro %}{% call m() %}body {{ name }}{% endcall %}", "{% macro m(xs) %}{% for x in xs %}{{ caller(x) }};{% endfor %}{% endmacro %}{% call(v) m([1, 2]) %}<{{ v }}>{% endcall %}",
    "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% filter upper %}a {{ name }}{% endfilter %} {% filter replace('a', 'b') | trim %} aa {% endfilter %}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}[{{ a }}]", "{% generation %}said {{ name }}{% endgeneration %}", "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", "{% raw %}{{ not }} {% this %}{% endraw %}", "{%- raw -%}  {{ x }}  {%- endraw -%}  y",
    "{{ strftime_now('%Y-%m-%d %d %b %B %A %a %H:%M:%S %j %p %I %y %%') }}", "{% print name %}", "{{ namespace(a=1).a }} {{ dict(a=1, b=[2]) }} {{ dict([(1, 2)]) }}", "{% for x in numbers if x != ns2 %}{{ x }}{% endfor %}", "{% set stop = namespace(v=false) %}{% for x in [1, 2, 3] if not stop.v %}{{ x }}{% if x == 2 %}{% set stop.v = true %}{% endif %}{% endfor %}",
    "{% set gen = numbers | select('odd') %}{{ gen | first }}-{{ gen | list }}-{{ gen | list }}", "{% set gen = numbers | map('string') %}{% for x in gen %}{{ x }}{% if loop.first %}{% break %}{% endif %}{% endfor %}:{{ gen | join(',') }}", "{{ range(*[1, 4]) | list }} {{ dict(**{'a': 1}) }}", "{% for x in [3, 1] | sort %}{{ x }}{% endfor %}{% for x in numbers[1:] %}{{ loop.index0 }}{% endfor %}",
    "{% if name is defined and name == 'Ada' and not (n < 3 or n > 9) %}in{% endif %}", "{% set x = 'a' if yes else 'b' %}{{ x }}{% set y = [1, 2,] %}{{ y }}", "{{ [loop_is_not_here is defined, name] }}", "{% for m in messages %}{{ m.role }}{% if m.content is string %}: {{ m.content }}{% elif m.content is none %} calls {{ m.tool_calls[0].name }}({{ m.tool_calls[0].arguments | tojson }}){% else %}{% for p in m.content %} {{ p.type }}{% endfor %}{% endif %}\n{% endfor %}",
]

# Unknown filters and tests: refused only where they run, if a condition stands before them.
STATEMENTS += [
    "{% if no %}{{ 1 | nofilter }}{% endif %}ok", "{% if yes %}a{% elif n is notest %}b{% else %}{{ n | nofilter(1, x=2) | upper }}{% endif %}", "{{ 'a' if yes else ('b' | nofilter) }} {{ (1 | nofilter) if no else 2 }}",
    "{% if 'nofilter' is filter %}{{ n | nofilter }}{% else %}{{ n }}{% endif %}", "{% if no %}{% set x = 1 | nofilter | nofilter2 %}{% elif no and 1 is not notest %}{% endif %}x",
]

# White space control.
SPACE = [
    "a\n{% if yes %}\nb\n{% endif %}\nc\n", "a\n  {% if yes %}\n  b\n  {% endif %}\nc", "a  {% if yes %}  b  {% endif %}  c", "a \n {%- if yes -%} \n b \n {%- endif -%} \n c", "a\n   {%+ if yes %}\nb{% endif %}", "{% if yes +%}\nb{% endif %}", "  {{ name }}  \n  {{- name -}}  \n  x", "a {#- note -#} b {# x #}\nc\n  {# own line #}\nd", "{# c #}\n\nx\n\n", "x\n\n", "x\n", "\n\n{% if yes %}\n\nx\n\n{% endif %}\n\n", "a\r\nb\rc\r\n{% if yes %}\r\nd{% endif %}",
    "{% for x in [1, 2] %}\n  {{ x }}\n{% endfor %}\nend", "{%- for x in [1, 2] %}\n  {{- x }}\n{%- endfor %}\nend", "    {% set a = 1 %}{{ a }}\n    {% set b = 2 %}\n{{ b }}", "a\t{% if yes %} \n b{% endif %}", "{{ {'a': {'b': 1}}.a.b }}{{ {'a': {}} }}", "{{ '}}' }}{{ '%}' }}{% if '%}' %}x{% endif %}", "{{ '{{' }} { { } } {a} %} }} #}", "x {{- '' }} \n {{ '' -}} y", "a\n \n  {%- if yes %} b {%- endif %}\n \nc", "{{\n  name\n  |\n  upper\n}}", "\u00a0 {%- if yes -%}\u2003x{% endif %}", "{% raw %}\n a {% endraw %}\nb", "é{% if yes %}世{% endif %}\n{{ '😀' }}", "", "\n", "plain", "{{ name }}\n", "  {% raw %}  {{x}}  {% endraw %}  \n", "{#- a -#}{##}x{#-#} y",
]

# What Jinja2 refuses, when parsing or when rendering.
ERRORS = [
    "{{ 1 +", "{{ }}", "{% if %}x{% endif %}", "{% if yes %}x", "{% for x in %}{% endfor %}", "{% endfor %}", "{% unknown %}", "{{ 'abc }}", "{# open", "{{ (1 }}", "{{ [1) }}", "{{ 1 | nofilter }}", "{{ 1 is notest }}", "{% break %}", "{{ a b }}", "{{ 012 }}", "{{ f(a=1, 2) }}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% macro %}{% endmacro %}", "{{ 1 $ 2 }}", "{% raw %}x", "{{ x is a is b }}", "{% macro m(a=1, b) %}{% endmacro %}",
    "{{ undefined_thing.x }}", "{{ undefined_thing[0] }}", "{{ undefined_thing + 1 }}", "{{ undefined_thing() }}", "{{ nothing.x.y }}", "{{ nested.zzz.y }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ 'a' < 1 }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ none + 1 }}", "{{ [] + () }}", "{{ name() }}", "{{ 5 | length }}", "{{ 5 | join }}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{{ 1 in 5 }}", "{{ 1 in 'abc' }}", "{{ raise_exception('told so') }}", "{{ undefined_thing | tojson }}", "{{ range | tojson }}", "{{ range(100001) }}", "{{ range(1, 5, 0) }}", "{{ [1].append(2) }}", "{{ unsorted.update({'a': 1}) }}", "{{ unsorted.pop('a') }}", "{% set name.x = 1 %}", "{% set n.x = 1 %}", "{{ ''.join([1]) }}", "{{ 'a'.split('') }}", "{{ 'abc'.index('z') }}", "{{ [1].index(5) }}", "{{ {[1]: 2} }}", "{{ numbers | sum(start='') }}", "{{ mixed | sort }}", "{{ numbers | map('nofilter') | list }}", "{{ numbers | select('notest') | list }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{{ '%d' % 'x' }}", "{{ '%s %s' % 'x' }}", "{{ 'x' % 1 }}", "{{ -'a' }}", "{{ undefined_thing < 1 }}", "{{ name | items }}{{ name | items | list }}", "{% set a, b = [1] %}", "{{ [1, 2][::0] | list | first + 1 }}", "{{ 'a' | round }}", "{{ name.__class__.x }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ dict(1) }}", "{{ x.y }}", "{{ messages[0].nope.deeper }}", "{{ strftime_now(1) }}", "{% call name() %}{% endcall %}", "{{ [3, 'a'] | min }}", "{{ 1 ~ 2 + 3 }}", "{{ numbers[:'a'] }}", "{{ name[nope:] }}", "{{ nothing[1:] }}", "{{ unsorted[1:] }}", "{{ unsorted.get([1]) }}", "{{ [1] in unsorted }}",
]

ERRORS += [
    "{% if yes %}{{ 1 | nofilter }}{% endif %}", "{% if n is notest %}{% endif %}", "{{ 1 if n is notest else 2 }}", "{% for x in [] %}{{ x | nofilter }}{% endfor %}", "{% macro m() %}{{ 1 | nofilter }}{% endmacro %}x", "{{ no and (1 | nofilter) }}", "{% if no %}{% endif %}{{ 1 | nofilter }}", "{% filter nofilter %}{% endfilter %}",
    "{{ [{'c': 1}, {}] | groupby('c') }}", "{{ [1] | groupby }}", "{{ [{'c': 1}, {'c': 'a'}] | groupby('c') }}", "{{ 5 | groupby('c') }}", "{{ [1] | slice(0) | list }}", "{{ [1] | slice | list }}", "{{ 5 | slice(2) | list }}", "{{ 'abcdef' | truncate(2) }}", "{{ 'abcdef' | truncate(4, leeway=-1) }}", "{{ 5 | truncate }}", "{{ [1] | urlencode }}", "{{ [(1, 2, 3)] | urlencode }}", "{{ 'a b' | wordwrap(0) }}", "{{ undefined_thing | wordwrap }}", "{{ 5 | wordwrap }}", "{{ 'x' | filesizeformat }}", "{{ none | filesizeformat }}", "{{ undefined_thing | attr('x') }}", "{{ name | attr(5) }}", "{{ (nested | attr('a')).b }}",
    "{{ {'a b': 1} | xmlattr }}", "{{ {'a\\n': 1} | xmlattr }}", "{{ {'a/': 1} | xmlattr }}", "{{ {'>': 1} | xmlattr }}", "{{ {'a=': 1} | xmlattr }}", "{{ {1: 2} | xmlattr }}", "{{ [1] | xmlattr }}", "{{ undefined_thing | xmlattr }}", "{{ none | xmlattr }}",
]

ALL = OPERATORS + ACCESS + FILTERS + TESTS + METHODS + STATEMENTS + SPACE + ERRORS
