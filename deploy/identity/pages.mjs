// The provider's pages: sign in and error, in English and Chinese, without inline style or script.

import fs from 'node:fs';

const here = new URL('.', import.meta.url);
const fonts = new URL('../../node_modules/@fontsource-variable/inter/files/', here);
const ASSETS = {
  '/assets/page.css': [new URL('page.css', here), 'text/css; charset=utf-8'],
  '/assets/page.js': [new URL('page.js', here), 'text/javascript; charset=utf-8'],
  '/assets/inter.woff2': [new URL('inter-latin-wght-normal.woff2', fonts), 'font/woff2'],
};

const WORDS = {
  en: {
    lang: 'en',
    title: 'Sign in',
    product: 'MaaS Portal',
    lead: 'This is a demo. Choose a person, or type a name and password.',
    username: 'User name',
    password: 'Password',
    submit: 'Sign in',
    failed: 'That name and password do not belong together. Check both, or choose a person below.',
    people: 'People in this demo',
    filled: (name) => `Filled in: ${name}`,
    error: 'Sign-in could not go on',
    retry: 'Go back to the portal and sign in again.',
    roles: { viewers: 'Viewer', 'data-scientists': 'Data scientist', 'team-admins': 'Team admin', auditors: 'Auditor', operators: 'Platform operator' },
    roleIn: (role, tenant) => `${role} in ${tenant}`,
    nobody: 'No role yet',
    join: ', ',
  },
  zh: {
    lang: 'zh-Hans',
    title: '登录',
    product: 'MaaS Portal',
    lead: '这是演示环境。请选择一位人员，或输入用户名和密码。',
    username: '用户名',
    password: '密码',
    submit: '登录',
    failed: '用户名与密码不匹配。请检查，或在下方选择一位人员。',
    people: '演示人员',
    filled: (name) => `已填入：${name}`,
    error: '登录无法继续',
    retry: '请回到平台重新登录。',
    roles: { viewers: '只读成员', 'data-scientists': '算法工程师', 'team-admins': '团队管理员', auditors: '审计员', operators: '平台运维' },
    roleIn: (role, tenant) => `${tenant} ${role}`,
    nobody: '尚无角色',
    join: '、',
  },
};

/** "zh" or "en": what the portal asked for, else what the browser prefers. */
export function languageOf(request, uiLocales = '') {
  for (const tag of `${uiLocales},${request.headers['accept-language'] ?? ''}`.split(/[\s,]+/)) {
    if (/^zh\b/i.test(tag)) return 'zh';
    if (/^en\b/i.test(tag)) return 'en';
  }
  return 'en';
}

export function securityHeaders(config) {
  // A form's answer may be redirected only where form-action allows, and signing in ends at the portal.
  const portals = [...new Set(config.client.redirect_uris.map((uri) => new URL(uri).origin))].join(' ');
  return {
    'content-security-policy':
      "default-src 'none'; style-src 'self'; script-src 'self'; font-src 'self'; img-src 'self' data:; " +
      `form-action 'self' ${portals}; base-uri 'none'; frame-ancestors 'none'`,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  };
}

export function asset(pathname, response) {
  const [file, type] = ASSETS[pathname] ?? [];
  if (!file || !fs.existsSync(file)) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { 'content-type': type, 'cache-control': 'max-age=3600', 'x-content-type-options': 'nosniff' });
  response.end(fs.readFileSync(file));
}

const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const escaped = (text) => String(text).replace(/[&<>"']/g, (character) => ENTITIES[character]);

function roleInWords(person, language) {
  if (person.role) return person.role[language] ?? person.role.en ?? person.role;
  const words = WORDS[language];
  const roles = (person.groups ?? []).map((group) => {
    const [, tenant, kind] = group.split('/');
    const role = words.roles[kind] ?? kind ?? group;
    return tenant === 'platform' ? role : words.roleIn(role, tenant);
  });
  return roles.join(words.join) || words.nobody;
}

function layout(words, title, content) {
  return `<!doctype html>
<html lang="${words.lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)} · ${words.product}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/assets/page.css">
<script type="module" src="/assets/page.js"></script>
</head>
<body>
<main>
<p class="brand"><span class="mark" aria-hidden="true"><i></i><i></i><i></i><i></i></span>${words.product}</p>
${content}
</main>
</body>
</html>
`;
}

function personCard(person, { uid, language, username }) {
  const chosen = person.username === username;
  return `<li><a class="person" href="/interaction/${escaped(uid)}?person=${encodeURIComponent(person.username)}"
 data-username="${escaped(person.username)}" data-password="${escaped(person.password)}" data-name="${escaped(person.name)}"${chosen ? ' aria-current="true"' : ''}>
<span class="name">${escaped(person.name)}</span>
<span class="role">${escaped(roleInWords(person, language))}</span>
<span class="keys"><code>${escaped(person.username)}</code> <code>${escaped(person.password)}</code></span>
</a></li>`;
}

/** `values`: uid of the interaction, language, people, the username to fill in, and whether the last try failed. */
export function signInPage(values) {
  const words = WORDS[values.language];
  const chosen = values.people.find((person) => person.username === values.username);
  const password = chosen && !values.failed ? chosen.password : '';
  return layout(
    words,
    words.title,
    `<h1>${words.title}</h1>
<p class="lead">${words.lead}</p>
${values.failed ? `<p class="failed" role="alert">${words.failed}</p>` : ''}
<form class="card" method="post" action="/interaction/${escaped(values.uid)}" autocomplete="off">
<label for="username">${words.username}</label>
<input id="username" name="username" value="${escaped(values.username)}" required autocapitalize="none" spellcheck="false"${password ? '' : ' autofocus'}>
<label for="password">${words.password}</label>
<input id="password" name="password" type="password" value="${escaped(password)}" required>
<button type="submit"${password ? ' autofocus' : ''}>${words.submit}</button>
<p class="said" role="status" data-said="${escaped(words.filled('{name}'))}"></p>
</form>
<h2>${words.people}</h2>
<ul class="people">
${values.people.map((person) => personCard(person, values)).join('\n')}
</ul>`,
  );
}

export function errorPage(language, { error, error_description: description }) {
  const words = WORDS[language];
  return layout(
    words,
    words.error,
    `<h1>${words.error}</h1>
<p class="lead">${words.retry}</p>
<p class="failed"><code>${escaped(error)}</code> ${escaped(description ?? '')}</p>`,
  );
}
