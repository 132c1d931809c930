// Asking the server for JSON, and what it says is wrong where it gives none.

/**
 * @param {string} address
 * @param {string} failed said where the server says nothing
 * @returns {Promise<{answer: object|null, fault?: string}>}
 */
export async function askFor(address, failed) {
  try {
    const response = await fetch(address, { headers: { Accept: "application/json" } });
    const body = await response.json();
    return response.ok ? { answer: body } : { answer: null, fault: faultOf(body) || failed };
  } catch {
    return { answer: null, fault: failed };
  }
}

function faultOf({ errors, detail }) {
  return Object.values(errors ?? {}).flat().join(" ") || detail;
}
