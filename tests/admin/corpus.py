"""Text that somebody may get into the database, and that must change nothing on a page: markup, scripts, template
syntax, breakers of attributes, control characters. Every script in it would call ``pwned()``."""

from __future__ import annotations

import re

SCRIPTS = (
    "<script>pwned()</script>",
    "</script><script>pwned()</script>",
    "</pre></td></tr></table><script>pwned()</script>",
    "</textarea></title></style><script>pwned()</script>",
    "<ScRiPt src=//example.invalid/x.js></sCrIpT>",
    "<scr<script>ipt>pwned()</scr</script>ipt>",
    "<img src=x onerror=pwned()>",
    "<img src=x onerror=&#112;wned()>",
    '"><img src=x onerror="pwned()">',
    "'><img src=x onerror='pwned()'>",
    '" autofocus onfocus="pwned()" x="',
    "' autofocus onfocus='pwned()' x='",
    "` onmouseover=`pwned()`",
    'x" onmouseover="pwned()" style="position:fixed;inset:0',
    "<svg onload=pwned()>",
    "<svg><animate onbegin=pwned() attributeName=x dur=1s>",
    "<svg><script>pwned()</script></svg>",
    '<svg><a xlink:href="javascript:pwned()"><text>x</text></a></svg>',
    "<math><mtext></mtext><mglyph><style><img src=x onerror=pwned()></style></mglyph></math>",
    "<body onload=pwned()>",
    "<details open ontoggle=pwned()>",
    "<iframe srcdoc='<script>parent.pwned()</script>'></iframe>",
    '<iframe src="javascript:parent.pwned()"></iframe>',
    '<object data="data:text/html,<script>pwned()</script>"></object>',
    '<embed src="javascript:pwned()">',
    '<meta http-equiv="refresh" content="0;url=javascript:pwned()">',
    '<base href="//example.invalid/">',
    "<link rel=stylesheet href=//example.invalid/x.css>",
    "<style>@import '//example.invalid/x.css';</style>",
    '<form action="//example.invalid/"><input type=submit name=reason>',
    '<a href="javascript:pwned()">x</a>',
    "javascript:pwned()",
    "JaVaScRiPt:pwned()//",
    "java\tscript:pwned()",
    "data:text/html,<script>pwned()</script>",
    "//example.invalid/",
    "<!--<img src='--><img src=x onerror=pwned()>",
    "]]><script>pwned()</script>",
    "<noscript><p title='</noscript><img src=x onerror=pwned()>'>",
    "<template><script>pwned()</script></template>",
    '"];pwned();//',
    "'-pwned()-'",
    "${pwned()}",
    "\u2028pwned()\u2029",
)
TEMPLATES = (
    "{{ 7|add:7 }}{% csrf_token %}",
    "{% include 'admin/base.html' %}{# x #}",
    "{{ settings.SECRET_KEY }}{{ request.user.password }}",
    "%(reason)s %s %d %%",
    "{0} {user.password} {reason!r}",
)
ENTITIES = (
    "&lt;script&gt;pwned()&lt;/script&gt;",
    "&#60;script&#62;pwned()&#60;/script&#62;",
    "&amp;&quot;&apos;&notit;&",
)
ODD = (
    "\u202egnp.exe\u202c \u2066x\u2069 \u200e\u200f",
    "Ⓐ𝕏😀 \U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301",
    "\x1b[2J\x1b]0;pwned\x07\x9b31m",
    "a\0b",
    "\ud800 lone \udc00",
    "\ufeff\ufffe\uffff",
    "\r\nSet-Cookie: pwned=1\r\n\r\n<script>pwned()</script>",
    "/../../admin/logout/?next=//example.invalid",
    "a/b?c=d&e=f#g;h%2Fi%00+_2F",
    "'; DROP TABLE dbqueue_message; --",
    "=HYPERLINK(\"//example.invalid\")",
    "<b>" * 4_000,
)  # fmt: skip
CORPUS = (*SCRIPTS, *TEMPLATES, *ENTITIES, *ODD)


def harmless(text: str) -> str:
    """Return a text of the same shape that means nothing to anybody, and that is no queue's name either."""
    return re.sub(r"\S", "~", text)
