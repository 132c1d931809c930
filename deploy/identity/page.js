// Choosing a person fills the form in place; without this script the same link reloads the page filled in.
const form = document.querySelector('form');
const people = document.querySelectorAll('a.person');

for (const person of people) {
  person.addEventListener('click', (event) => {
    event.preventDefault();
    form.username.value = person.dataset.username;
    form.password.value = person.dataset.password;
    for (const other of people) other.removeAttribute('aria-current');
    person.setAttribute('aria-current', 'true');
    const said = form.querySelector('.said');
    said.textContent = said.dataset.said.replace('{name}', person.dataset.name);
    form.querySelector('button').focus();
  });
}
