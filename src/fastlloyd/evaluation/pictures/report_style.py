"""How a report looks: by day and by night, on wide and narrow screens, on paper."""

STYLE = """
:root{color-scheme:light dark;
--ink:#1b1b1b;--paper:#fff;--faint:#5c5c5c;--line:#d9d9d9;--band:#f4f5f7;--link:#005a9c;--mark:#9b001c}
@media (prefers-color-scheme:dark){:root{
--ink:#e8e8e8;--paper:#16181b;--faint:#a9adb3;--line:#3a3e44;--band:#202429;--link:#7cc0f5;
--mark:#ff8f9c}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.3rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
h3{font-size:1rem;margin:1.6rem 0 .4rem}
a{color:var(--link)}
.mark{color:var(--mark);font-weight:600}
nav{background:var(--band);padding:.6rem 1rem;border-radius:.4rem}
nav ul{margin:0;padding-left:1.2rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}
dt{color:var(--faint)}dd{margin:0}
figure{margin:1.5rem 0}
figure .scroll{background:#fff;border:1px solid var(--line);border-radius:.4rem}
img{display:block;width:100%;min-width:40rem;height:auto;padding:.4rem}
figcaption{color:var(--faint);font-size:.9rem;margin-top:.3rem}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .45rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;overflow-wrap:normal}
td.n,th.n{text-align:right;white-space:nowrap}
thead th{background:var(--band);white-space:nowrap}
tbody tr:hover{background:var(--band)}
pre{margin:0;padding:.8rem;background:var(--band);font-size:.85rem;overflow-wrap:normal}
footer{margin-top:3rem;color:var(--faint);font-size:.85rem}
@media (max-width:34rem){body{padding:.7rem}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.4rem}}
@media print{nav{display:none}img{min-width:0}.scroll{overflow:visible}figure,tr{break-inside:avoid}}
"""
