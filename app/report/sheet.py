"""The report's style sheet: the pages' colours and type, for a file that stands alone."""

SHEET = """
:root { color-scheme: light dark; --page: light-dark(#FFFFFF, #14161A); --raised:
  light-dark(#FAFAF8, #191C21);
  --line: light-dark(#E3E3DF, #2D3138); --hair: light-dark(#ECECE8, #262A31); --ink:
  light-dark(#1D2025, #E9EAEC);
  --ink2: light-dark(#565C66, #A9AFB8); --ink3: light-dark(#6B717B, #8D939D); --memory:
  light-dark(#005E93, #7CC0EC);
  --sans: 'Source Sans', 'Source Sans 3', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei',
  sans-serif;
  --serif: 'Source Serif', 'Source Serif 4', 'Noto Serif CJK SC', 'Songti SC', Georgia, serif; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 400 15px/1.5 var(--sans);
  font-variant-numeric: tabular-nums; }
main { max-width: 80rem; margin: 0 auto; padding: 1.6rem 2.4rem 3rem; overflow-wrap: anywhere; }
header img { height: 2rem; display: block; margin-bottom: 1.6rem; }
.context { color: var(--ink3); font-size: .87rem; margin: 0 0 .35rem; }
.view { color: var(--ink2); font-weight: 600; margin: 0 0 .35rem; }
h1 { font: 500 1.85rem/1.22 var(--serif); max-width: 44rem; margin: 0 0 .5rem; text-wrap:
  balance; }
h2 { font: 550 1.3rem/1.25 var(--serif); margin: 0 0 .3rem; max-width: 52rem; }
.doubt { font-size: 1.03rem; line-height: 1.45; color: var(--ink2); max-width: 50rem; margin: 0 0
  .8rem; }
.note { font-size: .87rem; color: var(--ink2); max-width: 50rem; margin: 0 0 .6rem; }
.written { white-space: pre-wrap; border-left: 2px solid var(--line); padding-left: .8rem; }
section { margin: 2.2rem 0 0; break-inside: avoid; }
.numbers { display: grid; grid-template-columns: repeat(5, 1fr); gap: 1rem; margin-top: 1.4rem; }
.numbers span, .numbers small { display: block; font-size: .87rem; color: var(--ink2); }
.numbers b { display: block; font-size: 1.5rem; font-weight: 500; line-height: 1.25; }
.chart { background: #FFFFFF; margin: 0; min-width: 0; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 2rem; }
@media (prefers-color-scheme: dark) { .chart { padding: .8rem; border-radius: .4rem; box-sizing:
  content-box; } }
.wide, .ps-compare-wrap { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { border-bottom: 1px solid var(--hair); padding: .45rem 0 .45rem .8rem; text-align: right;
  font-weight: 400;
  white-space: nowrap; vertical-align: top; }
th:first-child, td:first-child { text-align: left; padding-left: 0; color: var(--ink2);
  white-space: normal; }
.ps-compare thead th { border-bottom-color: var(--ink3); vertical-align: bottom; padding-bottom:
  .6rem; }
.ps-compare thead b { font-weight: 600; white-space: normal; }
.ps-compare thead img { width: 11px; height: 11px; margin-right: .45rem; }
.ps-compare td b { font-weight: 400; }
.ps-compare td i { display: inline-block; min-width: 3.4rem; font-style: normal; font-size:
  .89rem; color: var(--ink2); }
.ps-compare td:nth-child(2) b { color: var(--ink2); } .ps-compare td:nth-child(2) i { display:
  none; }
.ps-compare small, .ps-flag { font-size: .8rem; color: var(--ink3); margin-left: .4rem; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1.4rem;
  font-size: .92rem; margin: .4rem 0; }
.runs { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr));
  gap: 0 2.4rem; }
.runs h2 { font-size: 1.08rem; }
dt { color: var(--ink3); } dd { margin: 0; }
details summary { cursor: pointer; color: var(--memory); font-size: .92rem; }
pre { background: var(--raised); border-radius: .35rem; padding: .7rem .9rem; font: .84rem/1.5
  'Source Code Pro', ui-monospace,
  monospace; white-space: pre-wrap; }
footer { margin-top: 2.6rem; padding-top: .7rem; border-top: 1px solid var(--line); color:
  var(--ink3); font-size: .84rem; }
@media (max-width: 52rem) { .pair { grid-template-columns: minmax(0, 1fr); } .numbers {
  grid-template-columns: repeat(2, 1fr); }
  main { padding: 1rem; } }
@media print { :root { color-scheme: light; } details { display: block; } }
"""
