// The demo's OpenID Connect provider: known people with known passwords, on loopback, for `make demo` and the tests.
// It is the certified `oidc-provider` plus configuration; no real person's password belongs here.
//
//   MAAS_DEMO=1 node deploy/identity/provider.mjs --config FILE
//
// FILE is JSON:
//   port                 number; always bound to 127.0.0.1
//   issuer               "http://127.0.0.1:<port>", compared exactly by the portal; no trailing slash
//   client               { id, secret, redirect_uris: [..], post_logout_redirect_uris: [..], backchannel_logout_uri }
//                        redirect_uris: ["<portal>/oidc/callback/"], post_logout_redirect_uris: ["<portal>/signed-out/"],
//                        backchannel_logout_uri: "<portal>/oidc/backchannel-logout/"
//   people               [{ username, name, email, password, groups: [..], sub?, role?: {en, zh}, disabled?: bool }]
//                        groups are full paths, as Keycloak sends them: "/nlp/data-scientists", "/platform/operators".
//                        `sub` is the stable id, `username` when absent; `role` is shown on the card, else read from groups.
//   jwks_file            path; the signing key, made (0600) when absent
//   state_file           path; sessions and tokens, appended (0600), so that a restart signs nobody out
//   rotate_refresh_tokens  optional, false: true makes every refresh token good for one use
//   access_seconds, refresh_seconds  optional life of tokens, 60 and 43200
//
// Relative paths start at FILE's folder. `people` is read again whenever FILE changes, so a person can be disabled or
// moved to another group while the provider runs. Answers GET /healthz with 204 once it listens. Exits 2 when it refuses.

import { createHash, generateKeyPairSync, randomUUID, timingSafeEqual } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { Provider } from 'oidc-provider';

import { asset, errorPage, languageOf, securityHeaders, signInPage } from './pages.mjs';
import { openStore } from './store.mjs';

const BODY_LIMIT = 8192;

function refuse(message) {
  console.error(message);
  process.exit(2);
}

function readConfig(file) {
  const config = JSON.parse(fs.readFileSync(file, 'utf8'));
  for (const key of ['port', 'issuer', 'client', 'people', 'jwks_file', 'state_file']) {
    if (config[key] === undefined) refuse(`${file}: "${key}" is missing`);
  }
  if (!['127.0.0.1', 'localhost'].includes(new URL(config.issuer).hostname)) {
    refuse(`${file}: the issuer must be on loopback, not ${config.issuer}`);
  }
  for (const key of ['jwks_file', 'state_file']) config[key] = path.resolve(path.dirname(file), config[key]);
  return config;
}

/** The private signing keys of `file`, made when absent. */
function readKeys(file) {
  if (!fs.existsSync(file)) {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    const jwk = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
    const jwks = { keys: [{ ...jwk, kid: randomUUID(), use: 'sig', alg: 'RS256' }] };
    fs.writeFileSync(file, JSON.stringify(jwks), { mode: 0o600 });
  }
  return JSON.parse(fs.readFileSync(file, 'utf8'));
}

/** People by subject, read again when the config file has changed. */
function directory(file) {
  let seen = 0;
  let people = new Map();
  return () => {
    const { mtimeMs } = fs.statSync(file);
    if (mtimeMs !== seen) {
      seen = mtimeMs;
      people = new Map(readConfig(file).people.map((person) => [person.sub ?? person.username, person]));
    }
    return people;
  };
}

const digest = (text) => createHash('sha256').update(String(text)).digest();

function passwordFits(person, password) {
  return person && !person.disabled && timingSafeEqual(digest(person.password), digest(password));
}

function claimsOf(sub, person) {
  const groups = person.groups?.length ? { groups: person.groups } : {}; // like Keycloak: no groups, no claim
  return { sub, name: person.name, preferred_username: person.username, email: person.email, email_verified: true, ...groups };
}

function providerSettings(config, keys, people) {
  const { client } = config;
  return {
    adapter: openStore(config.state_file),
    jwks: keys,
    cookies: {
      keys: keys.keys.map((key) => createHash('sha256').update(`cookies ${key.d}`).digest('base64url')),
      names: { session: 'idp_session', interaction: 'idp_interaction', resume: 'idp_resume' },
    },
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        redirect_uris: client.redirect_uris,
        post_logout_redirect_uris: client.post_logout_redirect_uris,
        backchannel_logout_uri: client.backchannel_logout_uri,
        backchannel_logout_session_required: true,
        grant_types: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    claims: { openid: ['sub', 'groups'], email: ['email', 'email_verified'], profile: ['name', 'preferred_username'] },
    conformIdTokenClaims: false, // the portal reads groups from the ID token, at sign-in and at every refresh
    pkce: { required: () => true },
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true },
    },
    // The library's own fetch refuses loopback addresses. Here every address is one, and only the client's is called.
    fetch: (url, { dispatcher: _, ...options }) => {
      if (String(url) !== client.backchannel_logout_uri) throw new Error(`will not call ${url}`);
      return fetch(url, options);
    },
    findAccount: (_ctx, sub) => {
      const person = people().get(sub);
      return person && !person.disabled ? { accountId: sub, claims: () => claimsOf(sub, person) } : undefined;
    },
    interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
    issueRefreshToken: () => true,
    loadExistingGrant: consentGiven,
    renderError: (ctx, out) => {
      ctx.type = 'html';
      ctx.set(securityHeaders(config));
      ctx.body = errorPage(languageOf(ctx.req, ctx.oidc?.params?.ui_locales), out);
    },
    responseTypes: ['code'],
    rotateRefreshToken: config.rotate_refresh_tokens === true,
    ttl: {
      AccessToken: config.access_seconds ?? 60,
      AuthorizationCode: 60,
      Grant: 86400,
      IdToken: 300,
      Interaction: 3600,
      RefreshToken: config.refresh_seconds ?? 43200,
      Session: 43200,
    },
  };
}

/** The portal is the provider's only client and ours: nobody is asked whether it may know their name. */
async function consentGiven(ctx) {
  const { client, session, provider } = ctx.oidc;
  const known = session.grantIdFor(client.clientId);
  const grant = (known && (await provider.Grant.find(known))) || new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope('openid email profile');
  await grant.save();
  return grant;
}

/** A sign-out that proves itself by an ID token goes straight back, without asking and without a page in between. */
async function straightBack(ctx, next) {
  await next();
  const { route, entities, params, session, provider } = ctx.oidc ?? {};
  const subject = entities?.IdTokenHint?.payload.sub;
  if (route !== 'end_session' || ctx.status !== 200 || !subject || !params.post_logout_redirect_uri) return;
  if (session.accountId && session.accountId !== subject) return;
  for (const [clientId, { grantId, sid }] of Object.entries(session.authorizations ?? {})) {
    const client = await provider.Client.find(clientId);
    await client.backchannelLogout(session.accountId, sid).catch((error) => console.error(`back-channel logout: ${error.message}`));
    if (grantId) {
      await Promise.all([provider.RefreshToken, provider.AccessToken].map((kind) => kind.revokeByGrantId(grantId)));
      await (await provider.Grant.find(grantId))?.destroy();
    }
  }
  await session.destroy();
  ctx.cookies.set('idp_session', null);
  const back = new URL(params.post_logout_redirect_uri);
  if (params.state) back.searchParams.set('state', params.state);
  ctx.redirect(back.href);
}

async function readForm(request) {
  let body = '';
  for await (const chunk of request) {
    body += chunk;
    if (body.length > BODY_LIMIT) throw new Error('the form is too large');
  }
  return new URLSearchParams(body);
}

function send(response, status, headers, body = '') {
  response.writeHead(status, headers);
  response.end(body);
}

/** GET shows the sign-in page (`?person=` fills it), POST checks the password and sends the browser on. */
async function interaction(provider, config, people, request, response) {
  const details = await provider.interactionDetails(request, response);
  const language = languageOf(request, details.params.ui_locales);
  const values = { uid: details.uid, language, people: [...people().values()].filter((person) => !person.disabled) };
  const headers = { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store', ...securityHeaders(config) };
  if (request.method !== 'POST') {
    const username = new URL(request.url, config.issuer).searchParams.get('person') ?? details.params.login_hint ?? '';
    return send(response, 200, headers, signInPage({ ...values, username, failed: false }));
  }
  const form = await readForm(request);
  const username = form.get('username') ?? '';
  const [sub, person] = [...people()].find(([, one]) => one.username === username) ?? [];
  if (!passwordFits(person, form.get('password') ?? '')) {
    return send(response, 401, headers, signInPage({ ...values, username, failed: true }));
  }
  return provider.interactionFinished(request, response, { login: { accountId: sub } }, { mergeWithLastSubmission: false });
}

function serve(config, provider, people) {
  const protocol = provider.callback();
  return http.createServer(async (request, response) => {
    const { pathname } = new URL(request.url, config.issuer);
    try {
      if (pathname === '/healthz') return send(response, 204, {});
      if (pathname.startsWith('/assets/')) return asset(pathname, response);
      if (pathname.startsWith('/interaction/')) return await interaction(provider, config, people, request, response);
      return protocol(request, response);
    } catch (error) {
      const status = error.statusCode ?? 400;
      const page = errorPage(languageOf(request), { error: error.error ?? 'invalid_request', error_description: error.error_description ?? '' });
      return send(response, status, { 'content-type': 'text/html; charset=utf-8', ...securityHeaders(config) }, page);
    }
  });
}

function main() {
  if (process.env.MAAS_DEMO !== '1') refuse('This provider shows its passwords. It starts only with MAAS_DEMO=1.');
  const { values } = parseArgs({ options: { config: { type: 'string' } } });
  if (!values.config) refuse('usage: node provider.mjs --config FILE');
  const file = path.resolve(values.config);
  const config = readConfig(file);
  const people = directory(file);
  const provider = new Provider(config.issuer, providerSettings(config, readKeys(config.jwks_file), people));
  provider.use(straightBack);
  provider.on('server_error', (_ctx, error) => console.error(error));
  const server = serve(config, provider, people);
  server.on('error', (error) => refuse(`port ${config.port}: ${error.message}`));
  server.listen(config.port, '127.0.0.1', () => console.error(`identity provider: ${config.issuer}`));
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0)); // every write is already on disk
}

main();
